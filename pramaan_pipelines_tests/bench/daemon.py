"""A real daemon with its code server, for the lines that need one.

Promises: the checkout's dagster.yaml, as `make dev` uses it, unless a line gives another; what the
daemon started ends with it.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from dagster import DagsterInstance

from pramaan_pipelines.local.children import dagster
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.bench.site import REPOSITORY

LIMIT_SECONDS = 240.0


def variables(settings: Settings, database_url: str, **more: str) -> dict[str, str]:
    """Return the settings as an environment."""
    told = settings.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    given = {name.upper(): str(value) for name, value in told.items()}
    return given | {"DATABASE_URL": database_url} | more


@contextmanager
def daemon(
    environment: Mapping[str, str], *, workspace: Path | None = None, config: Path | None = None
) -> Iterator[DagsterInstance]:
    """Run one while the block runs; gives its instance.

    Args:
        environment: beside this process's own.
        workspace: what it loads; None loads the code location.
        config: its dagster.yaml; None takes the checkout's.
    """
    with TemporaryDirectory(prefix="pramaan-bench-home-") as folder:
        home = Path(folder)
        shutil.copyfile(config or REPOSITORY / "dagster.yaml", home / "dagster.yaml")
        told = {**os.environ, **environment, "DAGSTER_HOME": folder}
        with (
            (home / "daemon.log").open("wb") as log,
            dagster(
                *("run", "-w", str(workspace or REPOSITORY / "workspace.yaml")),
                module="dagster._daemon",
                environment=told,
                folder=home,
                output=log,
            ),
            DagsterInstance.from_config(folder) as instance,
        ):
            try:
                yield instance
            except AssertionError as error:
                error.add_note((home / "daemon.log").read_text()[-4000:])
                raise


def wait_until(what: Callable[[], object], seconds: float = LIMIT_SECONDS) -> None:
    """Wait until `what` is true."""
    deadline = monotonic() + seconds
    while not what():
        assert monotonic() < deadline, "it did not come true in time"
        sleep(0.05)
