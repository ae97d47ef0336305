"""The environment of a code location, an instance, and the framer rail."""

from collections.abc import Iterator

import pytest
from dagster import DagsterInstance
from dagster._core.definitions import policy
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr

from pramaan_pipelines.orchestration import resources
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.telemetry.provider import Telemetry
from pramaan_pipelines_tests.orchestration.bench import Agent, Rail
from pramaan_pipelines_tests.support.world import World


@pytest.fixture(autouse=True)
def nothing_of_the_machine(aws_environment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the machine's own settings out."""
    del aws_environment
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)


@pytest.fixture
def configured(
    provisioned: Settings, app_url: SecretStr, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """The settings that the code location reads from this test's environment."""
    values = provisioned.model_dump(exclude_none=True) | {
        "database_url": app_url.get_secret_value()
    }
    for name, value in values.items():
        monkeypatch.setenv(name.upper(), str(value))
    return Settings.load()


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    """A Dagster instance in memory."""
    with DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    """What the one seam to the agent's runtime reaches."""
    made = Agent()
    monkeypatch.setattr(resources, "LoggingAgent", lambda: made)
    return made


@pytest.fixture
def rail(configured: Settings, world: World, instance: DagsterInstance, agent: Agent) -> Rail:
    """The framer rail of this test's own account and database."""
    return Rail(configured, world, instance, agent)


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Dagster's jitter choose the shortest pause between two tries."""
    monkeypatch.setattr(policy, "random", lambda: 0.0)


@pytest.fixture(scope="session")
def all_spans() -> InMemorySpanExporter:
    """What this process's own provider finishes, from now on."""
    Telemetry.current("test")
    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


@pytest.fixture
def spans(all_spans: InMemorySpanExporter) -> InMemorySpanExporter:
    """The spans of this test, as the real resources made them."""
    all_spans.clear()
    return all_spans
