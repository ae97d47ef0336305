"""Every test of the folder has an account of its own; publishers that speak to the stub."""

import pytest

from pramaan_pipelines.messaging import clients
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.eventbridge import EventBusPublisher
from pramaan_pipelines.messaging.publisher import Publisher
from pramaan_pipelines.messaging.sqs import QueueClient
from pramaan_pipelines_tests.messaging.bench import QUEUE_URL
from pramaan_pipelines_tests.support.aws import settings_for
from pramaan_pipelines_tests.support.stub import Stub


@pytest.fixture(autouse=True)
def own_account(aws_environment: str) -> None:
    """Keep the machine's own AWS settings out."""
    del aws_environment


@pytest.fixture
def one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """One attempt, so that a fault is answered without botocore's pause."""
    monkeypatch.setattr(clients, "ATTEMPTS", 1)


@pytest.fixture
def queue(stub: Stub) -> QueueClient:
    return QueueClient(client("sqs", settings_for(stub.endpoint_url)), QUEUE_URL)


@pytest.fixture
def bus(stub: Stub) -> EventBusPublisher:
    return EventBusPublisher(client("events", settings_for(stub.endpoint_url)), "pramaan-events")


@pytest.fixture(params=["queue", "bus"])
def publisher(request: pytest.FixtureRequest) -> Publisher:
    found: Publisher = request.getfixturevalue(request.param)
    return found
