"""The framer rail with its healing, and an instance whose runs can be re-executed."""

from collections.abc import Iterator

import pytest
from dagster import DagsterInstance

from pramaan_pipelines.framer.claims import FrameJobClaims
from pramaan_pipelines.framer.healing import FrameHealing
from pramaan_pipelines.framer.sweep import StaleFrameJobSweep
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.framer.bench import LEASE_SECONDS
from pramaan_pipelines_tests.healing.bench import Healing
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.orchestration.conftest import (
    agent,
    configured,
    instance,
    no_pause,
    nothing_of_the_machine,
    rail,
)

__all__ = ["agent", "configured", "instance", "no_pause", "nothing_of_the_machine", "rail"]


@pytest.fixture
def claims(database: Database) -> FrameJobClaims:
    return FrameJobClaims(database, lease_seconds=LEASE_SECONDS)


@pytest.fixture
def sweep(database: Database) -> StaleFrameJobSweep:
    return StaleFrameJobSweep(database, lease_seconds=LEASE_SECONDS)


@pytest.fixture
def owing(database: Database) -> FrameHealing:
    """What is owed, with the default bound."""
    return FrameHealing(database)


@pytest.fixture
def healing(rail: Rail) -> Healing:
    """The rail, with its sweep and its healing sensor."""
    return Healing(rail)


@pytest.fixture
def kept_instance() -> Iterator[DagsterInstance]:
    """An instance with storage on a disk."""
    with DagsterInstance.local_temp(overrides={"telemetry": {"enabled": False}}) as made:
        yield made
