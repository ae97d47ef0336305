"""dagster.yaml loads as an instance, and .env.example names what the code location reads."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance

from pramaan_pipelines.messaging.provision import DEFAULT_VISIBILITY_SECONDS
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.framer import (
    FRAMER_PLACES,
    MAX_FRAMER_RUNS,
    framer_trigger_job,
)
from pramaan_pipelines.settings import Settings, ViewSettings

KINDS = (Settings, ViewSettings)
OF_THE_LIBRARIES = {
    "OTEL_PROPAGATORS",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
}
OF_THE_LOADING = {"PRAMAAN_WAKE_UP"}
"""Read while the code location loads, before there are settings."""


@pytest.fixture
def root(repository: Path, tmp_path: Path) -> Iterator[DagsterInstance]:
    """The instance of the root's dagster.yaml, in a home of its own."""
    (tmp_path / "dagster.yaml").write_bytes((repository / "dagster.yaml").read_bytes())
    with DagsterInstance.from_config(str(tmp_path)) as made:
        yield made


@pytest.fixture
def example(repository: Path) -> dict[str, str]:
    """The variables of .env.example, also those that are commented out."""
    lines = (repository / ".env.example").read_text().splitlines()
    found = [re.fullmatch(r"(?:# ?)?([A-Z_]+)=(.*)", line) for line in lines]
    return {match[1]: match[2] for match in found if match}


def test_the_instance_runs_half_as_many_framer_runs_as_the_sensor_may_ask_for(
    root: DagsterInstance,
) -> None:
    """The other half waits for their places, so that these need not wait for a tick."""
    queue = root.get_concurrency_config().run_queue_config
    assert queue is not None
    limits = {
        (limit["key"], str(limit.get("value"))): limit for limit in queue.tag_concurrency_limits
    }
    assert limits[names.TAG_RAIL, names.RAIL_FRAMER]["limit"] == MAX_FRAMER_RUNS
    assert FRAMER_PLACES == 2 * MAX_FRAMER_RUNS
    assert queue.max_concurrent_runs > MAX_FRAMER_RUNS
    (lane,) = [limit for limit in queue.tag_concurrency_limits if limit["key"] == names.TAG_LANE]
    assert lane["limit"] == 1
    assert lane["value"] == {"applyLimitPerUniqueValue": True}


def test_a_run_that_waited_for_a_whole_other_ends_before_its_message_is_delivered_again() -> None:
    longest = int(framer_trigger_job.tags["dagster/max_runtime"])
    assert FRAMER_PLACES / MAX_FRAMER_RUNS * longest < DEFAULT_VISIBILITY_SECONDS


def test_the_instance_watches_its_runs_and_tells_nobody(root: DagsterInstance) -> None:
    assert root.run_monitoring_enabled
    assert not root.run_retries_enabled  # one thing retries: the queue, or the next tick
    assert not root.telemetry_enabled


def test_the_example_names_exactly_the_variables_that_are_read(example: dict[str, str]) -> None:
    ours = {name.upper() for kind in KINDS for name in kind.model_fields}
    known = ours | OF_THE_LIBRARIES | OF_THE_LOADING
    # What the hosted instance file reads (DAGSTER_...) is held to it in hosted/.
    assert {name for name in example if not name.startswith("DAGSTER_")} == known


def test_the_example_is_a_usable_environment(
    example: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in example.items():
        monkeypatch.setenv(name, value)
    settings = Settings.load()
    for name in Settings.model_fields:
        if example[name.upper()]:
            assert settings.require(name) == example[name.upper()]
