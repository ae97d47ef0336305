"""The database under attack, and the fixtures of the framer's rail."""

from collections.abc import Iterator

import psycopg
import pytest
from pydantic import SecretStr

from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import OWNER
from pramaan_pipelines_tests.orchestration.conftest import (
    agent,
    all_spans,
    configured,
    instance,
    no_pause,
    nothing_of_the_machine,
    rail,
    spans,
)
from pramaan_pipelines_tests.sealed.attack import Connection, Scene, arrange_views
from pramaan_pipelines_tests.support.world import World

__all__ = [
    "agent",
    "all_spans",
    "configured",
    "instance",
    "no_pause",
    "nothing_of_the_machine",
    "rail",
    "spans",
]


@pytest.fixture
def owner(server: EmbeddedPostgres, database_name: str) -> Iterator[Connection]:
    """The tables' owner."""
    with psycopg.connect(server.url(OWNER, database_name), autocommit=True) as connection:
        yield connection


@pytest.fixture
def scene(world: World, owner: Connection, app_url: SecretStr) -> Scene:
    """Two firms with rows in every table, and the owner's views of them."""
    arrange_views(owner)
    return Scene.build(world, app_url.get_secret_value())
