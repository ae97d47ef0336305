"""Real instances, as dagster.yaml describes them: on SQLite, and on Postgres."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml  # type: ignore[import-untyped]
from dagster import DagsterInstance

from pramaan_pipelines.local.roles import OWNER
from pramaan_pipelines_tests.orchestration.conftest import (
    configured,
    instance,
    nothing_of_the_machine,
)
from pramaan_pipelines_tests.support.storages import pooled

if TYPE_CHECKING:
    from pramaan_pipelines.local.postgres import EmbeddedPostgres

__all__ = ["configured", "instance", "nothing_of_the_machine"]


@pytest.fixture(params=["sqlite", "postgres", "pooled"])
def stored(
    request: pytest.FixtureRequest, tmp_path: Path, repository: Path
) -> Iterator[DagsterInstance]:
    """An instance whose storage outlives the process."""
    described = yaml.safe_load((repository / "dagster.yaml").read_text())
    # Nothing here is launched.
    described.pop("run_launcher", None)
    if request.param != "sqlite":
        server: EmbeddedPostgres = request.getfixturevalue("server")
        url = server.url(OWNER, request.getfixturevalue("empty_database"))
        described["storage"] = (
            pooled(url) if request.param == "pooled" else {"postgres": {"postgres_url": url}}
        )
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(described))
    with DagsterInstance.from_config(str(tmp_path)) as made:
        yield made
