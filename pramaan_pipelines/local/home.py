"""DAGSTER_HOME of a local stack, and the files of the checkout that it needs.

Promises: the instance is the one that the checkout's dagster.yaml describes.
Never: keeps a stale copy: each start writes it anew.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pramaan_pipelines
from pramaan_pipelines.local.errors import LocalStackError


@dataclass(frozen=True)
class Home:
    """Where Dagster keeps its storage, and which workspace it loads."""

    folder: Path
    workspace: Path


def dagster_home(state: Path) -> Home:
    """Make `state`/dagster into a DAGSTER_HOME.

    Raises:
        LocalStackError: this is not a checkout.
    """
    checkout = Path(pramaan_pipelines.__file__).parents[1]
    workspace = checkout / "workspace.yaml"
    if not workspace.is_file():
        raise LocalStackError(
            "`pramaan dev` and `pramaan demo` run from a checkout of the repository, which has "
            "dagster.yaml and workspace.yaml. Clone it and run `make dev` there."
        )
    folder = state / "dagster"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(checkout / "dagster.yaml", folder / "dagster.yaml")
    return Home(folder, workspace)
