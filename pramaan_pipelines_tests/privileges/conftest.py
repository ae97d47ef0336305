"""An account that refuses, a process with credentials of its own, and the framer rail in it."""

from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from pramaan_pipelines.messaging.provision import provision
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.orchestration.bench import Agent, Rail
from pramaan_pipelines_tests.orchestration.conftest import (
    agent,
    instance,
    no_pause,
    nothing_of_the_machine,
)
from pramaan_pipelines_tests.privileges.guard import Guard, GuardedAws
from pramaan_pipelines_tests.privileges.identity import Identity
from pramaan_pipelines_tests.support.aws import settings_for
from pramaan_pipelines_tests.support.proxy import serving
from pramaan_pipelines_tests.support.world import World

__all__ = ["agent", "instance", "no_pause", "nothing_of_the_machine"]


@pytest.fixture(scope="session")
def strict_emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of an emulator with its identity layer on."""
    aws = GuardedAws(tmp_path_factory.mktemp("strict"))
    aws.start()
    try:
        yield aws.endpoint_url
    finally:
        aws.stop()


@pytest.fixture
def guard(strict_emulator: str, aws_environment: str) -> Iterator[Guard]:
    """The guard before this test's account."""
    with serving(Guard(strict_emulator, aws_environment)) as running:
        yield running


@pytest.fixture
def empty(guard: Guard, app_url: SecretStr, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The account with nothing in it."""
    settings = settings_for(guard.url, database_url=app_url.get_secret_value())
    _export(settings, monkeypatch)
    return settings


@pytest.fixture
def configured(empty: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The account with the stack, made by its root."""
    outputs = provision(empty, visibility_timeout_seconds=30)
    named = {name.lower(): value for name, value in outputs.items()}
    settings = settings_for(
        str(empty.aws_endpoint_url), database_url=empty.database_url.get_secret_value(), **named
    )
    _export(settings, monkeypatch)
    return settings


@pytest.fixture
def identity(
    guard: Guard, aws_environment: str, empty: Settings, monkeypatch: pytest.MonkeyPatch
) -> Identity:
    """A user of the account, whose policy the test sets."""
    return Identity(guard, aws_environment, empty, monkeypatch)


@pytest.fixture
def rail(configured: Settings, world: World, instance: object, agent: Agent) -> Rail:
    """The framer rail in this account."""
    return Rail(configured, world, instance, agent)  # type: ignore[arg-type] # Dagster's fixture


def _export(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    values = settings.model_dump(exclude_none=True) | {
        "database_url": settings.database_url.get_secret_value()
    }
    for name, value in values.items():
        monkeypatch.setenv(name.upper(), str(value))
