"""The example's environment, Dagster's own database on the embedded server, and a home."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines_tests.support.stub import Reply, Request, stub_server

DAGSTER_ROLE = "pramaan_dagster"
PASSWORD = "dagster-s own"


@pytest.fixture
def example(repository: Path) -> dict[str, str]:
    """The variables that .env.example sets."""
    lines = (repository / ".env.example").read_text().splitlines()
    found = [re.fullmatch(r"([A-Z_]+)=(.*)", line) for line in lines]
    return {match[1]: match[2] for match in found if match}


@pytest.fixture(scope="session")
def dagster_url(server: EmbeddedPostgres) -> Iterator[str]:
    """A database and a role made by deploy/database.sql, as the role."""
    text = (Path(__file__).parents[2] / "deploy" / "database.sql").read_text()
    statements = re.sub(r"--.*", "", text).replace(":password", f"'{PASSWORD}'").split(";")
    with psycopg.connect(server.admin_url(), autocommit=True) as god:
        for statement in filter(str.strip, statements):
            god.execute(statement.encode())
        yield server.admin_url(DAGSTER_ROLE).replace(
            server.admin_url().partition("://")[2].partition("@")[0],
            f"{DAGSTER_ROLE}:{PASSWORD.replace(' ', '%20')}",
        )
        god.execute(f"DROP DATABASE {DAGSTER_ROLE} WITH (FORCE)")
        god.execute(f"DROP ROLE {DAGSTER_ROLE}")


@pytest.fixture
def home(tmp_path: Path, repository: Path) -> Callable[[str], Path]:
    """Makes a DAGSTER_HOME with the instance file of a target, as the Dockerfile does."""

    def made(target: str) -> Path:
        out = tmp_path / target
        subprocess.run(
            ["make", "-s", "instance", f"TARGET={target}", f"OUT={out}"],
            cwd=repository,
            env={"PATH": os.environ["PATH"]},
            check=True,
        )
        return out

    return made


@pytest.fixture
def ecs() -> Iterator[str]:
    """An ECS that knows every task definition: all that a launcher asks for when it is made."""

    def describe(request: Request) -> Reply:
        name = request["taskDefinition"]
        return 200, {
            "taskDefinition": {
                "taskDefinitionArn": f"arn:aws:ecs:eu-west-1:1:task-definition/{name}:7",
                "containerDefinitions": [{"name": "run"}],
            }
        }

    with stub_server() as stub:
        stub.behaviour = describe
        yield stub.endpoint_url
