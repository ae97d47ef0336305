"""A relay of each lane: to the emulator, or to the stub that fails on demand."""

import pytest

from pramaan_pipelines.messaging import clients
from pramaan_pipelines.outbox.lanes import DOCUMENT_REGISTRATION, DOMAIN_EVENT, LANES, Lane
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.outbox.bench import Relay
from pramaan_pipelines_tests.support.aws import settings_for
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.stub import Stub


@pytest.fixture(params=LANES, ids=lambda lane: lane.name)
def any_lane(request: pytest.FixtureRequest) -> Lane:
    """Each lane in turn."""
    lane: Lane = request.param
    return lane


@pytest.fixture(params=[DOCUMENT_REGISTRATION, DOMAIN_EVENT], ids=lambda lane: lane.name)
def lane(request: pytest.FixtureRequest) -> Lane:
    """One lane to a queue, one to the bus."""
    found: Lane = request.param
    return found


@pytest.fixture
def stubbed(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a service that is the stub, asked once, without botocore's own retry."""
    monkeypatch.setattr(clients, "ATTEMPTS", 1)
    return settings_for(
        stub.endpoint_url,
        document_ingestion_queue_url="http://sqs.invalid/1/ingestion",
        document_registration_queue_url="http://sqs.invalid/1/registration",
        event_bus_name="pramaan-events-test",
    )


@pytest.fixture
def relay(lane: Lane, stubbed: Settings, database: Database, record: TelemetryRecord) -> Relay:
    """A relay of `lane` to the stub."""
    return Relay(lane, stubbed, database, record)
