"""`pramaan replay`: dry by default, days with both ends, and an exit code that tells."""

from datetime import UTC, datetime, timedelta

import pytest

from pramaan_pipelines.outbox import replay_days
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST
from pramaan_pipelines.outbox.replay import run_replay
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.operations.test_commands import Capture, run
from pramaan_pipelines_tests.outbox.bench import put, received
from pramaan_pipelines_tests.support.world import World

LANE = DOCUMENT_INGEST.name


@pytest.fixture
def days(world: World) -> tuple[str, str]:
    """Yesterday and today, with a row of each."""
    put(world, DOCUMENT_INGEST)
    world.god.execute(
        "UPDATE ops.document_ingest_outbox SET created_at = created_at - interval '1 day'"
    )
    put(world, DOCUMENT_INGEST)
    now = datetime.now(UTC)
    return str((now - timedelta(days=1)).date()), str(now.date())


def test_replay_says_what_it_would_do_then_does_it_with_go_and_again_by_its_switch(
    configured: Settings, days: tuple[str, str], capsys: Capture
) -> None:
    first, last = days
    asked = ("replay", LANE, "--from", first, "--to", last)
    code, out, _ = run(capsys, *asked)
    assert (code, out) == (
        0,
        f"{first}  not sent 1, parked 0\n{last}  not sent 1, parked 0\n"
        "Nothing was sent; do it with --go.\n",
    )
    code, out, _ = run(capsys, *asked, "--go")
    assert code == 0
    sent = "sent 1, sent again 0, refused 0, stopped: empty; left: not sent 0, parked 0"
    assert out == f"{first}  {sent}\n{last}  {sent}\n"
    code, out, _ = run(capsys, "replay", LANE, "--from", first, "--also-sent")
    assert out.splitlines()[0] == f"{first}  not sent 0, parked 0, sent 1"
    code, out, _ = run(capsys, "replay", LANE, "--from", first, "--also-sent", "--go")
    assert (code, "sent 0, sent again 1" in out) == (0, True)
    received(configured, configured.document_ingestion_queue_url, 3)


def test_a_day_that_is_not_finished_ends_the_command_with_1_and_says_how_to_go_on(
    configured: Settings,
    days: tuple[str, str],
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del configured
    first, last = days

    def out_of_time(*arguments: object, **named: object) -> object:
        return run_replay(*arguments, **{**named, "budget_seconds": 0.0})  # type: ignore[arg-type] # passed on as it came

    with monkeypatch.context() as patched:
        patched.setattr(replay_days, "run_replay", out_of_time)
        code, out, err = run(capsys, "replay", LANE, "--from", first, "--to", last, "--go")
    assert code == 1
    assert [line.split("  ")[0] for line in out.splitlines()] == [first]
    assert err == (
        f"pramaan: {first} is not finished: the same command, without --restart, goes on from "
        "there\n"
    )
    _, out, _ = run(capsys, "replay", LANE, "--from", first)
    assert "would go on with a replay begun at 20" in out


@pytest.mark.usefixtures("configured")
def test_what_cannot_be_meant_is_refused_with_what_to_give(capsys: Capture) -> None:
    for asked, told in (
        (("no_such", "--from", "2026-01-01"), "there is no lane no_such; the lanes are: "),
        ((LANE, "--from", "yesterday"), "give a day (UTC): 2026-01-31"),
        ((LANE, "--from", "2026-01-02", "--to", "2026-01-01"), "0 days: give from 1 to 366"),
        ((LANE, "--from", "2020-01-01", "--to", "2026-01-01"), "days: give from 1 to 366"),
    ):
        code, _, err = run(capsys, "replay", *asked)
        assert (code != 0, told in err) == (True, True), err
