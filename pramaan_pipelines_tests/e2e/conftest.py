"""The live stack of a test: its own database, account, queues and DAGSTER_HOME."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.e2e.live import Live
from pramaan_pipelines_tests.support.proxy import HoldingProxy, holding_proxy
from pramaan_pipelines_tests.support.world import ENVIRONMENT, World


@pytest.fixture
def proxy(emulator: str) -> Iterator[HoldingProxy]:
    """Stands between the daemon's processes and the emulator; the test itself goes around it."""
    with holding_proxy(emulator) as running:
        yield running


@pytest.fixture
def live(
    tmp_path: Path,
    repository: Path,
    app_url: SecretStr,
    world: World,
    provisioned: Settings,
    aws_environment: str,
    proxy: HoldingProxy,
) -> Live:
    """Everything but the daemon, which each test starts and kills itself."""
    home = tmp_path / "dagster"
    home.mkdir()
    shutil.copyfile(repository / "dagster.yaml", home / "dagster.yaml")

    def through_the_proxy(url: str) -> str:
        return url.replace(str(provisioned.aws_endpoint_url), proxy.url)

    variables = {
        "PRAMAAN_ENVIRONMENT": ENVIRONMENT,
        "DATABASE_URL": app_url.get_secret_value(),
        "AWS_ENDPOINT_URL": proxy.url,
        "AWS_ACCESS_KEY_ID": aws_environment,
        "EVENT_BUS_NAME": provisioned.require("event_bus_name"),
    } | {
        name.upper(): through_the_proxy(provisioned.require(name))
        for name in (
            "document_ingestion_queue_url",
            "document_registration_queue_url",
            "framer_events_queue_url",
        )
    }
    sqs = client("sqs", provisioned)
    url = provisioned.require("framer_events_queue_url")
    return Live(
        home,
        repository / "workspace.yaml",
        variables,
        QueueConsumer(sqs, url),
        url,
        sqs,
        world,
    )
