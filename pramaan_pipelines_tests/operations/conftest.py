"""The rail with its dead letters, and the roles that operations run under."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import MAINTENANCE
from pramaan_pipelines_tests.operations.bench import Letters
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.orchestration.conftest import (
    agent,
    configured,
    instance,
    nothing_of_the_machine,
    rail,
)
from pramaan_pipelines_tests.support.proxy import HoldingProxy, holding_proxy

__all__ = ["agent", "configured", "instance", "nothing_of_the_machine", "rail"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the checkout's own .env out of what a command reads."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def letters(rail: Rail) -> Letters:
    """The dead letters of the rail's queue."""
    return Letters(rail)


@pytest.fixture
def maintenance_url(server: EmbeddedPostgres, database_name: str) -> SecretStr:
    """Postgres as the role that prunes."""
    return SecretStr(server.url(MAINTENANCE, database_name))


@pytest.fixture
def proxy(emulator: str) -> Iterator[HoldingProxy]:
    """Something before the emulator that can hold or answer one operation."""
    with holding_proxy(emulator) as running:
        yield running
