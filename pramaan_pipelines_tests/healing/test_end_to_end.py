"""Whatever a worker leaves undone ends in a frame, without a person: jobs, sensor and sweep."""

from uuid import UUID, uuid4

import pytest
from dagster import DagsterRunStatus

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.definitions import defs
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.consume_span import delivery_of
from pramaan_pipelines.orchestration.framer import FRAMER_PLACES
from pramaan_pipelines_tests.framer.bench import remove_matter
from pramaan_pipelines_tests.healing.bench import BOUND, GATES, Healing, owed_after_a_lost_claim
from pramaan_pipelines_tests.orchestration.bench import before
from pramaan_pipelines_tests.support.waiting import until
from pramaan_pipelines_tests.support.world import body

STARTED = ("started", "release")


def mine(healing: Healing) -> tuple[UUID, UUID]:
    """A new matter of firm A, and the firm."""
    return healing.world.matter(healing.world.firm_a), healing.world.firm_a


def dead_worker(healing: Healing) -> UUID:
    """A matter whose worker claimed and died before the invoke."""
    matter, firm = mine(healing)
    healing.rail.claimed_elsewhere(firm, matter, uuid4())
    return matter


def test_a_worker_that_died_between_commit_and_invoke_ends_in_a_frame(
    healing: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a real lease of a second, on the database's clock."""
    monkeypatch.setenv("MATTER_FRAME_JOB_LEASE_SECONDS", "1")
    matter, firm = mine(healing)
    claims = FrameJobClaims(healing.world.database, lease_seconds=1)
    dead = claims.claim(FrameRequest(firm, matter, uuid4()), TraceContext())
    assert isinstance(dead, Claim)
    assert healing.said() == "nothing is owed"

    def swept() -> bool:
        healing.sweep()
        return str(healing.job(matter)["run_status"]) == "failed"

    until(swept)
    (run,) = healing.heal()
    assert (run.outcome, run.ran) == (STARTED, list(GATES))
    assert healing.framed(matter)
    assert [row["status"] for row in healing.world.runs(matter)] == ["failed", "succeeded"]
    (payload,) = healing.rail.agent.payloads
    assert payload.agent_run_id != dead.agent_run_id
    assert healing.said() == "nothing is owed"


def test_a_claim_that_was_lost_ends_in_a_frame_of_its_own_event(healing: Healing) -> None:
    matter, firm = mine(healing)
    holder = healing.rail.claimed_elsewhere(firm, matter, uuid4())
    event = uuid4()
    lost = healing.rail.deliver(body(firm, matter, event_id=str(event)))
    assert lost.outcome == ("claim_lost", "claim")
    assert healing.said() == "nothing is owed"  # the holder is at work
    assert healing.rail.claims().release(holder)
    assert [run.outcome for run in healing.heal()] == [STARTED]
    assert healing.framed(matter)
    assert healing.world.runs(matter)[-1]["trigger_event_id"] == str(event)


def test_a_claim_that_was_lost_to_a_worker_that_died_ends_in_one_frame(healing: Healing) -> None:
    matter, firm = mine(healing)
    healing.rail.claimed_elsewhere(firm, matter, uuid4())
    healing.rail.deliver(body(firm, matter))
    healing.die(matter)
    assert [run.outcome for run in healing.heal()] == [STARTED]
    assert healing.framed(matter)
    assert healing.said() == "nothing is owed"
    assert len(healing.rail.agent.payloads) == 1


@pytest.mark.usefixtures("no_pause")
def test_an_invoke_that_exhausts_its_retries_ends_in_a_frame(healing: Healing) -> None:
    rail = healing.rail
    rail.agent.failures = 4  # the first run's four tries
    matter, firm = mine(healing)
    text = body(firm, matter)
    assert rail.deliver(text).failed == ["invoke"]
    healing.die(matter)
    assert [run.outcome for run in healing.heal()] == [STARTED]
    assert healing.framed(matter)
    rail.send(text)
    assert rail.run(rail.receive()).outcome == ("duplicate", "dedupe")


@pytest.mark.usefixtures("no_pause")
def test_tries_are_bounded_then_the_job_is_given_up_and_named_until_it_is_rebuilt(
    healing: Healing,
) -> None:
    rail, world = healing.rail, healing.world
    rail.agent.failures = 10_000
    matter, firm = mine(healing)
    rail.deliver(body(firm, matter))
    healed = 0
    while healing.job(matter)["failed_tries"] <= BOUND:
        healing.die(matter)
        for run in healing.heal():
            healed += 1
            assert run.failed == ["invoke"]
    assert healed == BOUND
    assert [row["status"] for row in world.runs(matter)] == ["failed"] * (BOUND + 1)
    assert healing.job(matter)["run_status"] == "failed"
    told = healing.said()
    assert "1 frame job failed too often" in told
    assert str(matter) in told
    rail.agent.failures = 0
    assert healing.said() == told  # nothing by itself
    assert rebuild(healing, firm, matter, dry_run=True)
    assert healing.said() == told
    assert rebuild(healing, firm, matter, dry_run=False)
    assert [run.outcome for run in healing.heal()] == [STARTED]
    assert healing.framed(matter)


def rebuild(healing: Healing, firm: UUID, matter: UUID, *, dry_run: bool) -> bool:
    """Press the button, and tell whether it is green."""
    config = {"firm_id": str(firm), "matter_id": str(matter), "dry_run": dry_run}
    return (
        defs.resolve_job_def("rebuild_frame_job")
        .execute_in_process(
            run_config={"ops": {"request_rebuild": {"config": config}}},
            instance=healing.rail.instance,
            raise_on_error=False,
        )
        .success
    )


def test_a_frame_is_not_built_while_consent_is_absent_and_is_when_it_is_granted(
    healing: Healing,
) -> None:
    matter = dead_worker(healing)
    healing.die(matter)
    healing.world.set_consent(healing.world.firm_a, granted=False)
    assert healing.said() == "nothing is owed"
    healing.world.set_consent(healing.world.firm_a, granted=True)
    assert [run.outcome for run in healing.heal()] == [STARTED]
    assert healing.framed(matter)


@pytest.mark.parametrize(
    ("gate", "outcome"),
    [("consent", ("consent_blocked", "consent")), ("invoke", ("consent_blocked", "invoke"))],
)
def test_consent_withdrawn_on_the_way_ends_the_healing_run_with_the_frame_still_owed(
    healing: Healing,
    gate: str,
    outcome: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """H4, and the frame comes about when consent does."""
    matter = dead_worker(healing)
    healing.die(matter)
    (request,) = healing.tick().run_requests or []
    world = healing.world
    before(monkeypatch, gate, lambda: world.set_consent(world.firm_a, granted=False))
    assert healing.run(request).outcome == outcome
    assert healing.rail.agent.payloads == []
    assert healing.said() == "nothing is owed"
    world.set_consent(world.firm_a, granted=True)
    assert [run.outcome for run in healing.heal()] == [STARTED]


def test_consent_that_was_never_there_is_an_end_that_is_not_healed_but_replayed(
    healing: Healing,
) -> None:
    world = healing.world
    firm = world.firm_without_consent
    text = body(firm, world.matter(firm))
    assert healing.rail.deliver(text).outcome == ("consent_blocked", "consent")
    world.set_consent(firm, granted=True)
    assert healing.said() == "nothing is owed"
    assert healing.rail.deliver(text).outcome == STARTED


def test_a_matter_that_is_gone_is_refused_once_and_not_yielded_for_ever(healing: Healing) -> None:
    matter = dead_worker(healing)
    healing.die(matter)
    (request,) = healing.tick().run_requests or []
    remove_matter(healing.world.god, matter)
    run = healing.run(request)
    assert (run.failed, run.outcome) == (["coherence"], ("refused", "coherence"))
    assert run.hook_errors() == []
    assert healing.said() == "nothing is owed"


def test_with_no_place_free_nothing_is_asked_for(healing: Healing) -> None:
    """Healing and messages share their places."""
    matter = dead_worker(healing)
    healing.die(matter)
    healing.take_places(FRAMER_PLACES - 1)
    assert healing.asked() == [str(matter)]
    healing.take_places(1)
    assert f"all {FRAMER_PLACES} places are taken" in healing.said()


def test_no_more_is_asked_for_than_there_are_places(healing: Healing) -> None:
    for _ in range(3):
        healing.die(dead_worker(healing))
    healing.take_places(FRAMER_PLACES - 2)
    assert len(set(healing.asked())) == 2


def test_what_is_under_way_is_not_asked_for_again_and_takes_no_other_s_turn(
    healing: Healing,
) -> None:
    """Level-triggered: until its claim, the job table says the same at every look."""
    under_way, waiting = dead_worker(healing), dead_worker(healing)
    healing.die(under_way)
    healing.die(waiting)
    healing.take_places(1, **{names.TAG_MATTER: str(under_way)})
    for _ in range(5):
        assert healing.asked() == [str(waiting)]


def test_h12_a_healing_run_has_no_run_key_and_what_died_before_its_claim_is_asked_for_again(
    healing: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    matter = dead_worker(healing)
    healing.die(matter)
    (first,) = healing.tick().run_requests or []
    assert first.run_key is None

    def killed() -> None:
        raise MemoryError

    before(monkeypatch, "claim", killed)
    assert healing.run(first).failed == ["claim"]
    (second,) = healing.tick().run_requests or []
    assert (second.run_key, second.tags) == (None, first.tags)
    assert healing.run(second).outcome == STARTED
    assert healing.framed(matter)


def test_two_runs_for_one_owed_frame_build_it_once_and_both_are_green(healing: Healing) -> None:
    matter = dead_worker(healing)
    healing.die(matter)
    (request,) = healing.tick().run_requests or []
    assert [healing.run(request).outcome for _ in range(2)] == [STARTED, ("claim_lost", "claim")]
    assert len(healing.rail.agent.payloads) == 1
    assert healing.framed(matter)


def test_a_healing_run_tells_whose_frame_it_is_and_holds_no_message(healing: Healing) -> None:
    matter = dead_worker(healing)
    healing.die(matter)
    (run,) = healing.heal()
    assert run.record.status is DagsterRunStatus.SUCCESS
    assert run.tags[names.TAG_MATTER] == str(matter)
    assert run.tags[names.TAG_FIRM] == str(healing.world.firm_a)
    assert run.tags[names.TAG_RAIL] == names.RAIL_FRAMER
    assert names.TAG_MESSAGE not in run.tags
    assert delivery_of(run.record.run_config) is None
    trace_of_its_run_row = healing.world.runs(matter)[-1]["traceparent"].split("-")[1]
    assert run.tags[names.TAG_TRACE] == trace_of_its_run_row


def test_a_healing_run_is_found_by_the_event_that_lost_its_claim(healing: Healing) -> None:
    claims = FrameJobClaims(healing.world.database, lease_seconds=900)
    request = owed_after_a_lost_claim(healing.world, claims)
    (asked,) = healing.tick().run_requests or []
    assert asked.tags[names.TAG_EVENT] == str(request.event_id)


def test_a_healing_run_by_hand_for_what_is_not_owed_changes_nothing(healing: Healing) -> None:
    matter, firm = mine(healing)
    assert healing.rail.deliver(body(firm, matter)).outcome == STARTED
    seen = (healing.job(matter), healing.world.runs(matter))
    dead = dead_worker(healing)
    healing.die(dead)
    (request,) = healing.tick().run_requests or []
    request.run_config["ops"]["owed"]["config"]["matter_id"] = str(matter)
    assert healing.run(request).outcome == ("claim_lost", "claim")
    assert (healing.job(matter), healing.world.runs(matter)) == seen
