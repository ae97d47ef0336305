"""A relay of each lane to the emulator, and microburst in between."""

from collections.abc import Iterator

import pytest

from pramaan_pipelines.messaging import clients
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.faults.bench import Disturbed
from pramaan_pipelines_tests.faults.burst import Burst, microburst
from pramaan_pipelines_tests.faults.matrix import LANES
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.world import World

ACCOUNT_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.fixture(params=LANES)
def lane_name(request: pytest.FixtureRequest) -> str:
    """Each lane in turn, as the tables call it."""
    return str(request.param)


@pytest.fixture(scope="session")
def running_burst(emulator: str) -> Iterator[Burst]:
    """The session's microburst."""
    with microburst(emulator) as running:
        yield running


@pytest.fixture
def burst(running_burst: Burst) -> Iterator[Burst]:
    """Microburst without a fault."""
    running_burst.mend()
    yield running_burst
    running_burst.mend()


@pytest.fixture
def one_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without botocore's own retry, so that what a lane does can be counted."""
    monkeypatch.setattr(clients, "ATTEMPTS", 1)


@pytest.fixture
def account_secret(monkeypatch: pytest.MonkeyPatch) -> str:
    """The account's secret key, which must be seen nowhere."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ACCOUNT_SECRET)
    return ACCOUNT_SECRET


@pytest.fixture
def relay(
    lane_name: str,
    world: World,
    database: Database,
    provisioned: Settings,
    record: TelemetryRecord,
) -> Disturbed:
    """The lane's relay, with nothing produced yet."""
    return Disturbed(LANES[lane_name], world, database, provisioned, record.telemetry)
