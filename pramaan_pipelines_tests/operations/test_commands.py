"""The commands: exit codes, what they say, and that they do what their jobs do."""

import re
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr

from pramaan_pipelines import __version__, cli
from pramaan_pipelines.cli import main
from pramaan_pipelines.contracts.text import counted
from pramaan_pipelines.messaging.queues import DeadLetterQueue
from pramaan_pipelines.outbox import retention
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST, LANES
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.operations.bench import HOSTILE, Letters
from pramaan_pipelines_tests.operations.test_redrive import DAY, parked, pending
from pramaan_pipelines_tests.operations.test_retention import DOCUMENTS, left, rows_of
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.support.aws import free_port
from pramaan_pipelines_tests.support.world import World

Capture = pytest.CaptureFixture[str]
ANY_ID = "6a3f2d0e-8f0b-4b8e-9f57-0d1f3c1f2a11"

OWED = "Owed: the healing sensor builds it, once the firm consents and a place is free.\n"


@pytest.fixture
def environment(app_url: SecretStr, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command that needs the database alone is given."""
    monkeypatch.setenv("PRAMAAN_ENVIRONMENT", "test")
    monkeypatch.setenv("DATABASE_URL", app_url.get_secret_value())


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, and what was said on either stream."""
    try:
        code = main(arguments)
    except SystemExit as refused:  # argparse
        code = int(str(refused.code))
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.usefixtures("environment")
def test_redrive_says_what_it_would_do_then_does_it_with_go(world: World, capsys: Capture) -> None:
    made = parked(world, DOCUMENT_INGEST, 2) + parked(world, DOCUMENT_INGEST, reason="other")
    named = (
        "redrive",
        DOCUMENT_INGEST.name,
        "--reason",
        "KiB",
        "--since",
        DAY.isoformat(),
        "--until",
        "2026-01-16T00:00:00Z",
    )
    code, out, err = run(capsys, *named)
    assert (code, err) == (0, "")
    assert out.endswith("2 parked rows would be pending again; do it with --go.\n")
    assert [line.split()[0] for line in out.splitlines()[:-1]] == made[:2]
    assert pending(world, DOCUMENT_INGEST, made) == [False] * 3
    code, out, _ = run(capsys, *named, "--go")
    assert (code, out.splitlines()[-1]) == (0, "2 parked rows are pending again.")
    assert pending(world, DOCUMENT_INGEST, made) == [True, True, False]


@pytest.mark.usefixtures("environment")
def test_redrive_of_an_unknown_lane_names_the_lanes(capsys: Capture) -> None:
    code, out, err = run(capsys, "redrive", "no_such_lane", "--go")
    assert (code, out) == (1, "")
    assert err.startswith("pramaan: there is no lane no_such_lane; the lanes are: ")
    assert all(lane.name in err for lane in LANES)


@pytest.mark.parametrize("time", ["2026-01-31T00:00:00", "2026-01-31", "yesterday", ""])
@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_time_without_a_zone_or_none_at_all_is_refused_with_an_example(
    capsys: Capture, time: str, option: str
) -> None:
    code, _, err = run(capsys, "redrive", DOCUMENT_INGEST.name, f"{option}={time}", "--go")
    assert code == 2
    assert "give a time with its zone: 2026-01-31T00:00:00+00:00" in err


def test_dead_letters_are_shown_without_a_body_and_redriven_on_demand(
    letters: Letters, capsys: Capture
) -> None:
    letters.put(letters.good(), HOSTILE)
    code, out, _ = run(capsys, "dead-letters")
    assert code == 0
    assert out.endswith("2 dead letters: 1 would pass the gates now.\n")
    assert "would pass now" in out
    assert "malformed, at: " in out
    assert "privileged" not in out
    assert "sent again" not in out
    assert letters.depth.visible == 2
    code, out, _ = run(capsys, "dead-letters", "--redrive", "passing")
    assert code == 0
    assert out.count("sent again") == 1
    assert (letters.depth.visible, letters.rail.depth().total) == (1, 1)
    code, out, _ = run(capsys, "dead-letters", "--redrive", "all")
    assert (code, letters.depth.total, letters.rail.depth().total) == (0, 0, 2)


def test_a_redrive_that_was_not_taken_is_no_success(
    letters: Letters, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters.put(letters.good(), HOSTILE)
    monkeypatch.setenv(
        "FRAMER_EVENTS_QUEUE_URL", letters.rail.settings.require("framer_events_queue_url")
    )
    monkeypatch.setattr("pramaan_pipelines.messaging.letters.SEND_SECONDS", -1.0)
    code, out, _ = run(capsys, "dead-letters", "--redrive", "passing")
    assert code == 1
    assert out.endswith("Not taken by the queue they came from: 1; they stay where they are.\n")
    assert letters.depth.visible == 2


def test_dead_letters_of_a_queue_that_is_not_there_is_an_error_that_says_what_to_do(
    rail: Rail, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "FRAMER_EVENTS_QUEUE_URL", rail.settings.require("framer_events_queue_url") + "-gone"
    )
    code, _, err = run(capsys, "dead-letters")
    assert code == 1
    assert re.match(r"pramaan: Queue pramaan-framer-events-test-gone: .*its stack", err)


@pytest.mark.usefixtures("environment")
def test_prune_counts_then_prunes_with_go(
    world: World, capsys: Capture, maintenance_url: SecretStr, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINTENANCE_DATABASE_URL", maintenance_url.get_secret_value())
    rows_of(world, "old")
    rows_of(world, "young")
    before = left(world)
    code, out, _ = run(capsys, "prune")
    assert code == 0
    assert f"{DOCUMENTS}: 2 rows would be pruned; do it with --go\n" in out
    assert left(world) == before
    code, out, _ = run(capsys, "prune", "--go")
    assert (code, f"{DOCUMENTS}: 2 rows pruned\n" in out) == (0, True)
    code, out, _ = run(capsys, "prune", "--go", "--older-than-days", "28")
    assert (code, sum(left(world).values())) == (0, 0)
    code, _, err = run(capsys, "prune", "--go", "--older-than-days", "0")
    assert code == 2
    assert "give a whole number from 1 to 36500" in err


@pytest.mark.usefixtures("environment", "world")
def test_a_prune_that_ran_out_of_time_is_no_success(
    capsys: Capture, maintenance_url: SecretStr, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINTENANCE_DATABASE_URL", maintenance_url.get_secret_value())
    monkeypatch.setattr(
        retention,
        "prune_dispatched",
        lambda *_, **__: retention.PruneResult({DOCUMENTS: 2000}, finished=False),
    )
    code, out, _ = run(capsys, "prune", "--go")
    assert code == 1
    assert "run it again" in out


@pytest.mark.usefixtures("environment")
def test_prune_without_its_url_or_with_another_role_s_says_so(
    world: World, capsys: Capture, app_url: SecretStr, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of(world, "old")
    code, _, err = run(capsys, "prune", "--go")
    assert code == 1
    assert err.startswith("pramaan: MAINTENANCE_DATABASE_URL is not set. ")
    monkeypatch.setenv("MAINTENANCE_DATABASE_URL", app_url.get_secret_value())
    code, _, err = run(capsys, "prune", "--go")
    assert code == 1
    assert "role is not pramaan_maintenance" in err


@pytest.mark.usefixtures("configured")
def test_heartbeat_complete_and_rebuild_say_whether_they_did(rail: Rail, capsys: Capture) -> None:
    firm = rail.world.firm_a
    matter = rail.world.matter(firm)
    claim = rail.claimed_elsewhere(firm, matter, uuid4())
    run_of = ("--firm", str(firm), "--agent-run", str(claim.agent_run_id))
    rail.lease_over(matter)
    assert run(capsys, "heartbeat", *run_of) == (0, "Done.\n", "")
    assert status(rail, matter) == ("running", 0, False)
    assert run(capsys, "complete", *run_of, "--failed") == (0, "Done.\n", "")
    assert status(rail, matter) == ("failed", 1, False)
    for late in ("heartbeat", "complete"):
        code, out, _ = run(capsys, late, *run_of)
        assert (code, out) == (1, "This agent run no longer holds its job; nothing changed.\n")
    assert status(rail, matter) == ("failed", 1, False)
    named = ("--firm", str(firm), "--matter", str(matter))
    assert run(capsys, "rebuild", *named) == (
        0,
        OWED,
        "",
    )
    assert status(rail, matter) == ("failed", 0, True)
    code, out, _ = run(capsys, "rebuild", "--firm", str(firm), "--matter", str(uuid4()))
    assert (code, out) == (1, "This firm has no such frame job, or the matter is gone.\n")
    heir = rail.claimed_elsewhere(firm, matter, uuid4())
    done = ("--firm", str(firm), "--agent-run", str(heir.agent_run_id))
    assert run(capsys, "complete", *done) == (0, "Done.\n", "")
    assert status(rail, matter) == ("idle", 0, False)


def status(rail: Rail, matter: UUID) -> tuple[str, int, bool]:
    job = rail.world.job(matter)
    assert job is not None
    return job["run_status"], job["failed_tries"], job["rebuild_needed"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["complete", "--firm", "not-a-uuid", "--agent-run", ANY_ID],
        ["heartbeat", "--firm", ANY_ID],
        ["rebuild", "--matter", ANY_ID],
        ["redrive"],
        ["dead-letters", "--redrive", "some"],
        ["no-such-command"],
        [],
    ],
    ids=" ".join,
)
def test_a_command_that_is_not_understood_is_refused_before_anything_happens(
    capsys: Capture, arguments: list[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert "usage: pramaan" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["redrive", DOCUMENT_INGEST.name],
        ["dead-letters"],
        ["prune"],
        ["rebuild", "--firm", ANY_ID, "--matter", ANY_ID],
        ["complete", "--firm", ANY_ID, "--agent-run", ANY_ID],
        ["heartbeat", "--firm", ANY_ID, "--agent-run", ANY_ID],
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_without_settings_a_command_names_what_is_not_set(
    capsys: Capture, arguments: list[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (1, "")
    assert "DATABASE_URL is not set." in err
    assert "Run `pramaan up`" in err


@pytest.mark.parametrize("command", ["redrive", "complete"])
def test_a_database_that_is_down_is_one_line_without_a_password(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("PRAMAAN_ENVIRONMENT", "test")
    monkeypatch.setenv(
        "DATABASE_URL", f"postgresql://pramaan_app:hunter2@127.0.0.1:{free_port()}/none"
    )
    rest = {
        "redrive": [DOCUMENT_INGEST.name],
        "complete": ["--firm", str(uuid4()), "--agent-run", str(uuid4())],
    }[command]
    code, out, err = run(capsys, command, *rest)
    assert (code, out) == (1, "")
    assert "gives no connection" in err
    assert "hunter2" not in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("environment")
def test_an_error_nobody_thought_of_is_one_line_and_a_hint_or_a_traceback_with_debug(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> object:
        raise ZeroDivisionError("token=hunter2")

    monkeypatch.setattr(Settings, "load", breaks)
    code, _, err = run(capsys, "redrive", DOCUMENT_INGEST.name)
    assert code == 1
    assert err.startswith("pramaan: ZeroDivisionError: ")
    assert "--debug" in err
    assert "hunter2" not in err
    code, _, err = run(capsys, "--debug", "redrive", DOCUMENT_INGEST.name)
    assert code == 1
    assert ", in breaks\n" in err
    assert err.endswith("ZeroDivisionError: token=<removed>\n")


def test_the_variables_of_the_folder_s_env_file_are_read(
    app_url: SecretStr, world: World, tmp_path: Path
) -> None:
    """As a process of its own, as an operator starts it."""
    parked(world, DOCUMENT_INGEST)
    (tmp_path / ".env").write_text(
        f"PRAMAAN_ENVIRONMENT=test\nDATABASE_URL={app_url.get_secret_value()}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pramaan_pipelines.cli", "redrive", DOCUMENT_INGEST.name],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 parked row would be pending again" in done.stdout


def test_the_package_runs_as_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pramaan_pipelines", "--version"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout == f"pramaan {__version__}\n"


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 dead letters"), (1, "1 dead letter"), (2, "2 dead letters")]
)
def test_a_count_has_its_noun_in_the_right_number(number: int, told: str) -> None:
    assert counted(number, "dead letter") == told


@pytest.mark.usefixtures("environment")
def test_status_counts_what_waits_in_each_lane_and_the_frame_jobs(
    world: World, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "_state", lambda: tmp_path / "none")
    parked(world, DOCUMENT_INGEST, 2)
    world.god.execute(
        "INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, run_status, rebuild_needed) VALUES "
        "(gen_random_uuid(), gen_random_uuid(), 'failed', false), "
        "(gen_random_uuid(), gen_random_uuid(), 'idle', true)"
    )
    code, out, _ = run(capsys, "status")
    assert code == 0
    assert re.search(r"document_ingest_relay +pending 0, oldest 0 s, parked 2\n", out)
    assert re.search(r"frame jobs failed +1\n", out)
    assert re.search(r"frame jobs idle +1\n", out)


def test_the_command_knows_every_dead_letter_queue() -> None:
    assert set(cli.DEAD_LETTER_QUEUES) == {str(name) for name in DeadLetterQueue}
