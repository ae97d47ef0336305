"""A replay as an operator meets it: a partition of a lane's job, its switch, and what it says."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from dagster import DagsterInstance

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.messaging.publisher import SendResult, SendStatus
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.replays import DAYS
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST, DOMAIN_EVENT, LANES, Lane
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.operations.bench import Pressed
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.outbox.bench import put, received, row
from pramaan_pipelines_tests.support.world import World

pytestmark = pytest.mark.usefixtures("configured")

TODAY = datetime.now(UTC).date
ALSO_SENT = {names.TAG_ALSO_SENT: "true"}


def replay(
    instance: DagsterInstance,
    lane: Lane,
    day: date | None = None,
    *,
    tags: dict[str, str] | None = None,
    **config: Any,
) -> Pressed:
    """Run one partition of the lane's replay job, as a backfill does."""
    name = lane.name.removesuffix("_relay")
    result = defs.resolve_job_def(f"{name}_replay_job").execute_in_process(
        run_config={"ops": {f"replay_{name}": {"config": config}}},
        partition_key=str(day or TODAY()),
        tags=tags,
        instance=instance,
        raise_on_error=False,
    )
    return Pressed(result, instance)


def relay(instance: DagsterInstance) -> None:
    """Run the live relay of the domain events."""
    job = defs.resolve_job_def("domain_event_relay_job")
    assert job.execute_in_process(instance=instance).success


def ids(events: list[str]) -> Counter[str]:
    return Counter(events)


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: lane.name)
def test_a_day_of_each_lane_is_sent_and_only_the_switch_sends_it_again(
    lane: Lane, world: World, instance: DagsterInstance, configured: Settings
) -> None:
    url = {
        LANES[0].name: configured.document_ingestion_queue_url,
        LANES[1].name: configured.document_registration_queue_url,
        LANES[2].name: configured.framer_events_queue_url,
    }[lane.name]
    put(world, lane, 2)
    first = replay(instance, lane)
    assert first.green
    assert (first.told["sent"], first.told["sent_again"]) == (2, 0)
    received(configured, url, 2)
    second = replay(instance, lane)
    assert (second.green, second.told["selected"]) == (True, 0)
    assert f"without the tag {names.TAG_ALSO_SENT}" in second.logs
    received(configured, url, 0)
    third = replay(instance, lane, tags=ALSO_SENT)
    assert (third.told["sent"], third.told["sent_again"]) == (0, 2)
    received(configured, url, 2)
    fourth = replay(instance, lane, also_sent=True)
    assert fourth.told["sent_again"] == 2


def test_consent_granted_later_and_a_replay_of_the_day_frame_the_blocked_matters_and_no_other_twice(
    rail: Rail,
) -> None:
    """consent_blocked is an end that only a replay undoes; the consumer's dedupe does the rest."""
    world, firm = rail.world, rail.world.firm_without_consent
    framed = [world.created_matter(world.firm_a) for _ in range(2)]
    blocked = [world.created_matter(firm) for _ in range(2)]
    relay(rail.instance)
    before = [rail.run(message).outcome for message in rail.queue.receive(10, 2)]
    assert Counter(before) == {("started", "release"): 2, ("consent_blocked", "consent"): 2}
    assert [world.runs(matter.matter_id) for matter in blocked] == [[], []]

    world.set_consent(firm, granted=True)
    assert replay(rail.instance, DOMAIN_EVENT).told["selected"] == 0, "nothing is unsent"
    assert replay(rail.instance, DOMAIN_EVENT, tags=ALSO_SENT).told["sent_again"] == 4
    after = [rail.run(message).outcome for message in rail.queue.receive(10, 2)]
    assert Counter(after) == {("started", "release"): 2, ("duplicate", "dedupe"): 2}

    for matter in (*framed, *blocked):
        (run,) = world.runs(matter.matter_id)
        assert (run["status"], run["trigger_event_id"]) == ("succeeded", str(matter.event_id))
    assert Counter(payload.matter_id for payload in rail.agent.payloads) == Counter(
        matter.matter_id for matter in (*framed, *blocked)
    )
    assert rail.depth().total == 0


def test_a_dry_run_says_what_it_would_do_and_changes_nothing(
    world: World, instance: DagsterInstance, configured: Settings
) -> None:
    put(world, DOCUMENT_INGEST, 3)
    by_tag = replay(instance, DOCUMENT_INGEST, tags={names.TAG_DRY_RUN: "true", **ALSO_SENT})
    by_config = replay(instance, DOCUMENT_INGEST, dry_run=True)
    assert by_tag.told == {
        "dry_run": True,
        "would_send": 3,
        "would_send_again_at_most": 0,
        "parked_of_day": 0,
    }
    assert by_config.told == {"dry_run": True, "would_send": 3, "parked_of_day": 0}
    assert world.pending(DOCUMENT_INGEST.event_type) == 3
    assert world.rows("SELECT 1 FROM ops.outbox_replays") == []
    received(configured, configured.document_ingestion_queue_url, 0)


def test_a_switch_that_says_neither_true_nor_false_is_refused(
    world: World, instance: DagsterInstance
) -> None:
    put(world, DOCUMENT_INGEST)
    for tag in (names.TAG_ALSO_SENT, names.TAG_DRY_RUN, names.TAG_RESTART):
        pressed = replay(instance, DOCUMENT_INGEST, tags={tag: "yes"})
        told = f"the tag {tag} is 'yes'. Nothing was sent: set it to true or false."
        assert pressed.failure == f"failed at replay_document_ingest: {told}"
    assert world.pending(DOCUMENT_INGEST.event_type) == 1


def test_an_outage_makes_the_run_red_with_what_to_press_and_that_goes_on(
    world: World, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    (event,) = put(world, DOCUMENT_INGEST)
    publisher = DOCUMENT_INGEST.publisher(Settings.load())

    def out(*_: object, **__: object) -> list[SendResult]:
        return [SendResult(SendStatus.UNAVAILABLE, "throttled")]

    with monkeypatch.context() as patched:
        patched.setattr(type(publisher), "send", out)
        pressed = replay(instance, DOCUMENT_INGEST)
    assert not pressed.green
    assert "is out, or was for some calls (throttled)" in pressed.failure
    assert "Launch this day again" in pressed.failure
    again = replay(instance, DOCUMENT_INGEST)
    assert again.green
    assert again.told["goes_on_from"].startswith("a replay begun at 20")
    assert row(world, DOCUMENT_INGEST, event)["dispatched_at"]


def test_a_destination_that_is_not_there_is_said_before_anything_is_sent(
    world: World, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(world, DOMAIN_EVENT)
    monkeypatch.setenv("EVENT_BUS_NAME", "no-such-bus")
    pressed = replay(instance, DOMAIN_EVENT, tags=ALSO_SENT)
    assert "Nothing was sent. Launch this day again" in pressed.failure
    assert world.rows("SELECT 1 FROM ops.outbox_replays") == []


def test_a_day_that_is_not_finished_in_the_time_is_red_and_goes_on(
    world: World, instance: DagsterInstance
) -> None:
    put(world, DOCUMENT_INGEST, 3)
    pressed = replay(instance, DOCUMENT_INGEST, batch_rows=1, budget_seconds=0.001)
    assert "the time of this run is spent and the day is not finished" in pressed.failure
    assert world.pending(DOCUMENT_INGEST.event_type) == 2
    assert replay(instance, DOCUMENT_INGEST).told["still_pending_of_day"] == 0


def test_the_days_are_of_utc_from_before_the_first_row_to_today() -> None:
    keys = DAYS.get_partition_keys()
    assert keys[0] == "2026-01-01"
    now = datetime.now(UTC)
    assert keys[-1] in {str(now.date()), str((now - timedelta(minutes=5)).date())}
    assert str(DAYS.timezone) == "UTC"


def test_the_live_relay_is_not_partitioned_and_shares_no_limit_with_replays() -> None:
    for lane in LANES:
        live = defs.resolve_job_def(f"{lane.name}_job")
        replays = defs.resolve_job_def(f"{lane.name.removesuffix('_relay')}_replay_job")
        assert live.partitions_def is None
        assert replays.partitions_def is DAYS
        assert names.TAG_LANE not in replays.tags
        assert int(replays.tags["dagster/priority"]) < 0
