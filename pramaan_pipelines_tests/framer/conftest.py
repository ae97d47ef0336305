"""Claims and a sweep on the test's own database."""

import pytest

from pramaan_pipelines.framer.claims import FrameJobClaims
from pramaan_pipelines.framer.sweep import StaleFrameJobSweep
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.framer.bench import LEASE_SECONDS


@pytest.fixture
def claims(database: Database) -> FrameJobClaims:
    return FrameJobClaims(database, lease_seconds=LEASE_SECONDS)


@pytest.fixture
def sweep(database: Database) -> StaleFrameJobSweep:
    return StaleFrameJobSweep(database, lease_seconds=LEASE_SECONDS)
