"""Replay through the core: which rows of a day, from where it goes on, and what it leaves alone."""
# ruff: noqa: S608 - statements made of constants

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from pramaan_pipelines.outbox import replay, replay_selection
from pramaan_pipelines.outbox.relay import StoppedReason
from pramaan_pipelines.outbox.replay import ReplayRun, look, run_replay
from pramaan_pipelines.outbox.replay_selection import before_day
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.outbox.bench import Relay, answering, event_ids, put, rows
from pramaan_pipelines_tests.outbox.test_plans import nodes
from pramaan_pipelines_tests.support.stub import Reply, Request, Stub, accept, bodies, error
from pramaan_pipelines_tests.support.world import TRACEPARENT, World

DAY = date(2026, 3, 8)
REPLAYS = "SELECT to_jsonb(r) FROM ops.outbox_replays r ORDER BY started_at"


def at(clock: str, day: date = DAY) -> datetime:
    return datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=UTC)


def put_at(
    world: World, relay: Relay, time: datetime, count: int = 1, *, sent: bool = False
) -> list[str]:
    """Write rows of that created_at; `sent` marks them as dispatched a second later."""
    events = put(world, relay.lane, count)
    world.god.execute(
        f"UPDATE {relay.lane.outbox.table} SET created_at = %s, dispatched_at = %s "
        "WHERE event_id = ANY (%s::uuid[])",
        [time, time + timedelta(seconds=1) if sent else None, events],
    )
    return events


def replayed(relay: Relay, day: date = DAY, *, rows: int = 500, **more: Any) -> ReplayRun:
    return run_replay(
        relay.lane,
        day,
        database=relay.database,
        publisher=relay.lane.publisher(relay.settings),
        telemetry=relay.record.telemetry,
        limits=DrainLimits(rows=rows),
        **more,
    )


def replays(world: World) -> list[dict[str, Any]]:
    return [found for (found,) in world.rows(REPLAYS)]


def dispatched(world: World, relay: Relay, events: list[str]) -> list[Any]:
    return [found["dispatched_at"] for found in rows(world, relay.lane, events)]


def test_a_replay_sends_what_of_its_utc_day_was_not_sent_and_nothing_else(
    world: World, relay: Relay, stub: Stub, app_url: SecretStr
) -> None:
    put_at(world, relay, at("23:59:59.999999", DAY - timedelta(days=1)))
    put_at(world, relay, at("00:00", DAY + timedelta(days=1)))
    put_at(world, relay, at("12:00"), sent=True)
    wanted = put_at(world, relay, at("23:59:59.999999")) + put_at(world, relay, at("00:00"))
    elsewhere = f"{app_url.get_secret_value()}?options=-c%20timezone%3DAsia/Kolkata"
    relay.database = Database.connect(elsewhere)
    run = replayed(relay)
    relay.database.close()
    assert sorted(event_ids(stub.requests)) == sorted(wanted)
    assert all(dispatched(world, relay, wanted))
    assert (run.finished, run.relay.sent, run.relay.again, run.left.pending) == (True, 2, 0, 0)
    assert world.pending(relay.lane.event_type) == 2, "the days before and after wait as they did"
    (kept,) = replays(world)
    assert (kept["status"], kept["sent"], kept["again"]) == ("finished", 2, 0)


def test_only_the_switch_sends_again_what_was_sent_with_its_event_id_and_trace_as_they_were(
    world: World, relay: Relay, stub: Stub
) -> None:
    before = put_at(world, relay, at("10:00"), 3, sent=True)
    new = put_at(world, relay, at("11:00"), 2)
    marks = dispatched(world, relay, before)
    run = replayed(relay, also_sent=True)
    assert event_ids(stub.requests) == [*before, *new]
    assert (run.finished, run.relay.sent, run.relay.again) == (True, 5, 3)
    assert dispatched(world, relay, before) == marks, (
        "the first sending is what pruning counts from"
    )
    texts = [json.loads(body) for request in stub.requests for body in bodies(request)]
    assert {found["traceparent"] for found in texts} == {TRACEPARENT}


def test_a_second_replay_after_a_finished_one_begins_anew(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put_at(world, relay, at("10:00"), 3)
    first, second = replayed(relay, also_sent=True), replayed(relay, also_sent=True)
    assert event_ids(stub.requests) == [*events, *events]
    assert (first.relay.again, second.relay.again, second.resumed) == (0, 3, None)
    assert [kept["status"] for kept in replays(world)] == ["finished", "finished"]


def cut_after(batches: int) -> Callable[[Request], Reply]:
    """Accept so many calls, then be a process that dies."""
    left = [batches]

    def behaviour(request: Request) -> Reply:
        left[0] -= 1
        return accept(request) if left[0] >= 0 else error(503, "ServiceUnavailable")

    return behaviour


def test_a_replay_that_met_an_outage_goes_on_where_it_stopped(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put_at(world, relay, at("10:00"), 10, sent=True)
    stub.behaviour = cut_after(2)
    out = replayed(relay, also_sent=True, rows=4)
    assert (out.finished, out.relay.again) == (False, 8)
    assert out.relay.stopped_reason is StoppedReason.OUTAGE
    stub.requests.clear()
    stub.behaviour = accept
    again = replayed(relay, also_sent=True, rows=4)
    assert event_ids(stub.requests) == events[8:]
    assert again.finished
    assert again.resumed is not None
    assert again.resumed.again == 8
    (kept,) = replays(world)
    assert (kept["status"], kept["again"]) == ("finished", 10)


def test_a_replay_cut_between_acceptance_and_commit_repeats_that_batch_and_no_other(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put_at(world, relay, at("10:00"), 9, sent=True)
    cuts = [1, 1, 0]

    def accept_and_cut(request: Request) -> Reply:
        if not cuts.pop(0):
            world.god.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND usename = 'pramaan_app' "
                "AND state = 'idle in transaction'"
            )
        return accept(request)

    stub.behaviour = accept_and_cut
    with pytest.raises(Exception, match="terminat"):
        replayed(relay, also_sent=True, rows=3)
    stub.behaviour = accept
    assert replayed(relay, also_sent=True, rows=3).finished
    counted = Counter(event_ids(stub.requests))
    assert counted == Counter([*events, *events[6:]])


def test_the_budget_ends_a_run_and_the_next_goes_on(world: World, relay: Relay, stub: Stub) -> None:
    events = put_at(world, relay, at("10:00"), 6, sent=True)
    run = replayed(relay, also_sent=True, rows=2, budget_seconds=0)
    assert (run.finished, run.relay.stopped_reason) == (False, StoppedReason.BUDGET)
    assert event_ids(stub.requests) == events[:2]
    assert replayed(relay, also_sent=True, rows=2).finished
    assert event_ids(stub.requests) == events


def test_what_a_relay_sends_while_the_replay_runs_is_not_sent_twice(
    world: World, relay: Relay, stub: Stub
) -> None:
    """A row committed late: its created_at is of a transaction that began long before."""
    before = put_at(world, relay, at("10:00"), 2, sent=True)
    late: list[str] = []

    def meanwhile(request: Request) -> Reply:
        if not late:
            late.extend(put_at(world, relay, at("09:00")))  # behind the replay's place
            late.extend(put_at(world, relay, at("11:00")))  # ahead of it
            assert relay.drain().sent == 2
        return accept(request)

    stub.behaviour = meanwhile
    assert replayed(relay, also_sent=True, rows=1).finished
    assert Counter(event_ids(stub.requests)) == Counter([*before, *late])


def test_an_unsent_row_that_is_committed_behind_the_replays_place_is_sent(
    world: World, relay: Relay, stub: Stub
) -> None:
    early = put_at(world, relay, at("10:00"), 2)
    late: list[str] = []

    def meanwhile(request: Request) -> Reply:
        if not late:
            late.extend(put_at(world, relay, at("09:00")))
        return accept(request)

    stub.behaviour = meanwhile
    run = replayed(relay, rows=1)
    assert event_ids(stub.requests) == [*early, *late]
    assert (run.finished, run.left.pending) == (True, 0)


def test_a_row_that_pauses_after_a_failure_is_tried_once_by_a_replay(
    world: World, relay: Relay, stub: Stub
) -> None:
    paused, refused = put_at(world, relay, at("10:00")), put_at(world, relay, at("11:00"))
    world.god.execute(f"UPDATE {relay.lane.outbox.table} SET next_attempt_at = now() + '1 hour'")
    stub.behaviour = answering(lambda event: "SomeCode" if event in refused else None)
    run = replayed(relay)
    assert event_ids(stub.requests) == [*paused, *refused]
    assert (run.finished, run.relay.sent, run.relay.failed, run.left.pending) == (True, 1, 1, 1)


def test_a_parked_row_is_counted_and_left_where_it_is(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put_at(world, relay, at("10:00"), 2)
    world.god.execute(
        f"UPDATE {relay.lane.outbox.table} SET parked_at = now(), parked_reason = 'x' "
        "WHERE event_id = %s",
        [events[0]],
    )
    run = replayed(relay, also_sent=True)
    assert event_ids(stub.requests) == events[1:]
    assert (run.finished, run.left.parked) == (True, 1)


def test_a_row_of_before_that_is_refused_is_tried_once_more_and_then_told(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put_at(world, relay, at("10:00"), 5, sent=True)
    stub.behaviour = answering(lambda event: "SomeCode" if event == events[1] else None)
    run = replayed(relay, also_sent=True, rows=2)
    assert event_ids(stub.requests) == [*events, events[1]]
    assert (run.finished, run.relay.again, run.given_up) == (True, 4, 1)
    assert {str(told.event_id) for told in run.relay.failures} == {events[1]}
    (found,) = rows(world, relay.lane, [events[1]])
    assert (found["parked_at"], found["attempts"], found["last_dispatch_error"]) == (None, 0, None)
    (kept,) = replays(world)
    assert (kept["status"], kept["failed"], kept["owed"]) == ("finished", 1, [])


def test_a_row_that_is_not_answered_holds_up_no_other_and_is_owed_until_it_is(
    world: World, relay: Relay, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_selection, "MAX_OWED", 2)
    events = put_at(world, relay, at("10:00"), 8, sent=True)
    silent = set(events[1::2])
    stub.behaviour = answering(lambda event: "InternalError" if event in silent else None)
    out = replayed(relay, also_sent=True, rows=4)
    assert (out.finished, out.relay.again) == (False, 2)
    assert out.relay.stopped_reason is StoppedReason.OUTAGE
    assert [len(kept["owed"]) for kept in replays(world)] == [2]
    stub.requests.clear()
    stub.behaviour = accept
    assert replayed(relay, also_sent=True, rows=4).finished
    assert Counter(event_ids(stub.requests)) == Counter([events[1], *events[3:]])


def test_a_restart_gives_up_an_unfinished_replay_and_so_does_a_day_without_a_touch(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put_at(world, relay, at("10:00"), 2, sent=True)

    def unfinished() -> None:
        stub.requests.clear()
        assert not replayed(relay, also_sent=True, rows=1, budget_seconds=0).finished
        assert event_ids(stub.requests) == events[:1]
        stub.requests.clear()

    unfinished()
    assert replayed(relay, also_sent=True, restart=True).resumed is None
    assert event_ids(stub.requests) == events
    unfinished()
    world.god.execute("UPDATE ops.outbox_replays SET updated_at = now() - interval '25 hours'")
    assert look(relay.database, relay.lane, DAY, also_sent=True)[1] is None
    assert replayed(relay, also_sent=True).resumed is None
    assert event_ids(stub.requests) == events
    assert Counter(kept["status"] for kept in replays(world)) == {"abandoned": 2, "finished": 2}


def test_a_look_counts_and_changes_nothing(world: World, relay: Relay, stub: Stub) -> None:
    put_at(world, relay, at("10:00"), 3, sent=True)
    put_at(world, relay, at("11:00"), 2)
    counts, unfinished = look(relay.database, relay.lane, DAY, also_sent=False)
    assert (counts.pending, counts.parked, counts.sent, unfinished) == (2, 0, None, None)
    counts, _ = look(relay.database, relay.lane, DAY, also_sent=True)
    assert (counts.pending, counts.parked, counts.sent) == (2, 0, 3)
    assert stub.requests == []
    assert replays(world) == []


def test_a_row_that_postgres_cannot_render_is_parked_and_the_rest_of_the_day_is_sent(
    world: World, relay: Relay, stub: Stub
) -> None:
    events = put_at(world, relay, at("10:00"), 4)
    sick = rows(world, relay.lane, events)[1]["id"]
    lane = relay.lane
    body = f"(CASE WHEN id = {sick} THEN (1 / (id - id))::text ELSE {lane.outbox.body} END)"
    relay.lane = replace(lane, outbox=replace(lane.outbox, body=body))
    run = replayed(relay)
    assert event_ids(stub.requests) == [events[0], *events[2:]]
    assert (run.finished, run.relay.sent, run.relay.parked, run.left.parked) == (True, 3, 1, 1)


def test_a_replay_reads_its_day_by_index_and_nothing_of_the_days_before(
    world: World, relay: Relay
) -> None:
    """Measured at two millions of rows; here enough that a wrong index would show."""
    put_at(world, relay, at("12:00", DAY - timedelta(days=1)), 10_000, sent=True)
    put_at(world, relay, at("12:00", DAY - timedelta(days=2)), 10_000)
    put_at(world, relay, at("12:00"), 20, sent=True)
    put_at(world, relay, at("13:00"), 20)
    table = relay.lane.outbox.table
    world.god.execute(f"VACUUM ANALYZE {table}")
    passed_at, passed_id = before_day(DAY)
    parameters = {
        "event_type": relay.lane.event_type,
        "day": DAY,
        "only": None,
        "max_rows": 10,
        "passed_at": passed_at,
        "passed_id": passed_id,
        "started_at": datetime.now(UTC),
        "also_sent": True,
    }
    prefix = table.split(".")[1]
    for query, wanted in (
        (replay_selection.SENT, {"sent_day_idx"}),
        (replay_selection.UNSENT_ONCE, {"pending_day_idx"}),
        (replay_selection.UNSENT_DUE, {"pending_day_idx"}),
        (replay.COUNTS, {"sent_day_idx", "pending_day_idx", "parked_idx"}),
    ):
        filled = query.format(table=table, columns="id")
        statement = text("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + filled)
        names = statement.compile().params.keys()
        with relay.database.staff() as connection:
            plan = connection.scalar(statement, {name: parameters[name] for name in names})
        found = nodes(plan[0]["Plan"])
        assert {n["Index Name"].removeprefix(f"{prefix}_") for n in found if "Index Name" in n} == (
            wanted
        )
        assert "Seq Scan" not in {node["Node Type"] for node in found}
        assert found[0]["Shared Hit Blocks"] + found[0]["Shared Read Blocks"] < 40
