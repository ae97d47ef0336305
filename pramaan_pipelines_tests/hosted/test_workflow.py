"""The deploy workflow: each step is a command of ours, and each that can be run here is run."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import APP, OWNER
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.provision import resolve
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store import migrate
from pramaan_pipelines_tests.hosted.files import read

WORKFLOW: Any = read("../.github/workflows/deploy.yml")
STEPS: Any = WORKFLOW["jobs"]["release"]["steps"]
COMMANDS = [step["run"] for step in STEPS if "run" in step]

ELSEWHERE = {
    'make images IMAGES="$IMAGES" >> "$GITHUB_ENV"': "needs an engine; test_image.py reads it",
    "make roll-out": "needs ECS; test_targets.py lints and reads the template",
}


def test_the_steps_stand_in_the_order_that_needs_no_stop() -> None:
    words = [re.sub(r"^\S*pramaan |^make | >> .*", "", command) for command in COMMANDS]
    assert words == [
        "wheel",
        "validate",
        'images IMAGES="$IMAGES"',
        "provision",
        "provision --resolve",
        "migrate",
        "roll-out",
        "doctor --smoke",
    ]


def test_nothing_foreign_runs_in_it_but_two_actions_by_their_commit() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert [name.split("@")[0] for name in used] == [
        "actions/checkout",
        "aws-actions/configure-aws-credentials",
    ]
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name) for name in used)
    assert WORKFLOW["permissions"] == {"contents": "read", "id-token": "write"}
    assert not WORKFLOW["concurrency"]["cancel-in-progress"]
    for command in COMMANDS:
        assert "${{" not in command  # an expression in a shell line is how a name becomes a command
        assert "\n" not in command  # the shell's exit code is that of the one command


def test_the_owners_url_is_given_to_the_migration_and_to_nothing_else() -> None:
    given = [step.get("run") for step in STEPS if "MIGRATION" in str(step.get("env", ""))]
    assert given == [".venv/bin/pramaan migrate"]
    assert "MIGRATION" not in str(WORKFLOW["jobs"]["release"]["env"])


@pytest.mark.long
def test_every_step_that_can_be_run_here_does_what_it_says(
    repository: Path,
    tmp_path: Path,
    server: EmbeddedPostgres,
    empty_database: str,
    bare: Settings,
    aws_environment: str,
) -> None:
    """In the workflow's order, on a database and an account with nothing in them, and again."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")},
        "PRAMAAN_ENVIRONMENT": "release-test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": str(bare.aws_endpoint_url),
        "AWS_ACCESS_KEY_ID": aws_environment,
        "DATABASE_URL": server.url(APP, empty_database),
        "MIGRATION_DATABASE_URL": server.url(OWNER, empty_database),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    wanted = [command for command in COMMANDS if command not in ELSEWHERE]
    assert len(wanted) == len(COMMANDS) - len(ELSEWHERE)
    pramaan = [command for command in wanted if "pramaan" in command]
    for command in (*pramaan, *pramaan):
        told = tmp_path / "github_env"
        ran = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", command.replace(".venv/bin/", "")],
            cwd=tmp_path,
            env={**environment, "GITHUB_ENV": str(told)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
        if told.exists():
            named = dict(line.split("=", 1) for line in told.read_text().splitlines())
            assert named["EVENT_BUS_NAME"] == "pramaan-events-release-test"
            assert len(named) == 4
            environment |= named
    assert migrate.current(SecretStr(server.url(OWNER, empty_database))) == migrate.head()
    with psycopg.connect(server.admin_url(empty_database)) as god:
        (left,) = god.execute("SELECT count(*) FROM ops.document_ingest_outbox").fetchone() or ()
    assert left == 0
    for command in ("make -n wheel", "make -n validate", "make -n images", "make -n roll-out"):
        subprocess.run(command.split(), cwd=repository, check=True, capture_output=True)


@pytest.mark.parametrize("missing", ["stack", "queue"])
def test_resolving_fails_where_something_is_missing(
    bare: Settings, provisioned: Settings, missing: str
) -> None:
    if missing == "stack":
        elsewhere = bare.model_copy(update={"pramaan_environment": "another"})
        with pytest.raises(DestinationError, match="There is no stack pramaan-pipelines-another"):
            resolve(elsewhere)
        return
    assert resolve(provisioned)["EVENT_BUS_NAME"] == provisioned.event_bus_name
    url = provisioned.require("framer_events_queue_url")
    client("sqs", provisioned).delete_queue(QueueUrl=url)
    with pytest.raises(DestinationError, match="pramaan-framer-events-test"):
        resolve(provisioned)
