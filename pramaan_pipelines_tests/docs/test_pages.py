"""Every command of the runbook is run, and its question to the database."""

import os
import re
import shlex
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from pramaan_pipelines.cli import main
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import APP, MAINTENANCE
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.telemetry.propagation import stamp_current_trace
from pramaan_pipelines_tests.docs.blocks import DOCS, blocks
from pramaan_pipelines_tests.orchestration.conftest import configured, nothing_of_the_machine
from pramaan_pipelines_tests.support.world import World

__all__ = ["configured", "nothing_of_the_machine"]

COMMANDS = [line for block in blocks("runbook.md", "sh") for line in block.splitlines()]
SYMPTOMS = (
    "A backlog grows",
    "A dead-letter queue is not empty",
    "A frame job failed for good",
    "A schedule is silent",
    "The database was restarted, or failed over",
    "Another firm's data is suspected somewhere",
    "The daemon's memory grows",
)


def test_each_symptom_says_what_to_look_at_what_to_press_and_when_it_is_over() -> None:
    text = (DOCS / "runbook.md").read_text()
    sections = re.split(r"(?m)^## ", text)[1:]
    assert [section.splitlines()[0] for section in sections] == list(SYMPTOMS)
    for section in sections:
        assert re.findall(r"(?m)^\*\*(Look|Press|Over)", section) == ["Look", "Press", "Over"]


@pytest.fixture
def on_call(
    configured: Settings,
    world: World,
    server: EmbeddedPostgres,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> World:
    """Where somebody on call types, with a parked row and a frame job to see."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRAMAAN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("MAINTENANCE_DATABASE_URL", server.url(MAINTENANCE, database_name))
    matter = world.matter(world.firm_a)
    claims = FrameJobClaims(world.database, lease_seconds=configured.matter_frame_job_lease_seconds)
    claim = claims.claim(FrameRequest(world.firm_a, matter, uuid4()), stamp_current_trace())
    assert isinstance(claim, Claim)
    assert claims.release(claim)
    monkeypatch.setenv("FIRM", str(world.firm_a))
    monkeypatch.setenv("MATTER", str(matter))
    world.god.execute(
        "INSERT INTO ops.document_ingest_outbox "
        "(firm_id, document_id, event_type, parked_at, parked_reason) "
        "VALUES (%s, gen_random_uuid(), 'document.ingest.requested', now(), 'a reason')",
        [world.firm_a],
    )
    return world


def test_every_command_of_the_runbook_does_what_it_says(
    on_call: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(COMMANDS) > 10
    told = {}
    for command in COMMANDS:
        program, *arguments = shlex.split(os.path.expandvars(command))
        assert program == "pramaan"
        code = main(arguments)
        said = capsys.readouterr()
        assert code == 0, (command, said.out, said.err)
        told[command] = said.out
    assert "would be pending again" in told["pramaan redrive document_ingest_relay"]
    assert "is pending again" in told["pramaan redrive document_ingest_relay --go"]
    assert (
        on_call.one("SELECT count(*) FROM ops.document_ingest_outbox WHERE parked_at > now()") == 0
    )
    assert told['pramaan rebuild --firm "$FIRM" --matter "$MATTER"'].startswith("Owed")


def test_the_question_about_another_firm_finds_what_a_wall_that_is_down_lets_through(
    world: World, server: EmbeddedPostgres, database_name: str
) -> None:
    (block,) = blocks("runbook.md", "sql")
    text = block.replace("00000000-0000-0000-0000-000000000001", str(world.firm_a))
    world.matter(world.firm_a)
    world.matter(world.firm_b)

    def counted() -> list[int]:
        found = []
        with psycopg.connect(server.url(APP, database_name), autocommit=True) as session:
            for statement in filter(str.strip, text.split(";")):
                answer = session.execute(statement.encode())
                if "must_be_0" in statement:
                    (row,) = answer.fetchall()
                    found.append(row[0])
        return found

    assert counted() == [0, 0]
    world.god.execute("ALTER TABLE matters DISABLE ROW LEVEL SECURITY")
    assert counted() == [1, 0]
