"""The same event again, at once or much later: one agent run, decided by the database."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest
from dagster import DagsterInstance

from pramaan_pipelines.framer import gates
from pramaan_pipelines.framer.claims import FrameJobClaims
from pramaan_pipelines.orchestration.framer import run_request
from pramaan_pipelines_tests.healing.bench import Healing
from pramaan_pipelines_tests.orchestration.bench import FramerRun, Rail
from pramaan_pipelines_tests.support.world import World, body, envelope

STARTED = ("started", "release")


def in_step(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> None:
    """Let two runs pass `name` together: neither goes on before both have its answer."""
    together, real = Barrier(2), getattr(where, name)

    def met(*args: Any, **named: Any) -> Any:
        answer = real(*args, **named)
        together.wait(30)
        return answer

    monkeypatch.setattr(where, name, met)


def same_event_twice(world: World) -> str:
    matter = world.matter(world.firm_a)
    return envelope(world.firm_a, matter, event_id=uuid4()).model_dump_json()


def test_two_deliveries_at_once_that_both_pass_dedupe_start_one_agent_run(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EB-07: a look before the claim cannot decide it; the claim's transaction does."""
    text = same_event_twice(rail.world)
    rail.send(text, text)
    messages = [rail.receive(), rail.receive()]
    in_step(monkeypatch, gates, "is_handled")

    def run(at: int) -> FramerRun:
        with DagsterInstance.ephemeral() as own:
            made = Rail(rail.settings, rail.world, own, rail.agent).run(messages[at])
            assert made.outcome
            return FramerRun(made.result, own)

    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(run, range(2)))
    assert [made.result.success for made in runs] == [True, True]
    (row,) = rail.world.rows("SELECT id FROM agents.agent_run")
    assert [payload.agent_run_id for payload in rail.agent.payloads] == [row[0]]
    ((status, rebuild),) = rail.world.rows(
        "SELECT run_status, rebuild_needed FROM ops.matter_frame_jobs"
    )
    assert (status, rebuild) == ("idle", False)
    assert rail.depth().total == 0


def test_two_healing_runs_at_once_that_both_pass_consent_build_the_frame_once(
    healing: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    rail = healing.rail
    matter = rail.world.matter(rail.world.firm_a)
    rail.claimed_elsewhere(rail.world.firm_a, matter, uuid4())
    healing.die(matter)
    (request,) = healing.tick().run_requests or []
    in_step(monkeypatch, gates, "load_egress_consent")

    def run(_: int) -> tuple[str | None, str | None]:
        with DagsterInstance.ephemeral() as own:
            other = Healing(Rail(rail.settings, rail.world, own, rail.agent))
            return other.run(request).outcome

    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(map(str, pool.map(run, range(2))))
    assert outcomes == sorted(map(str, [STARTED, ("claim_lost", "claim")]))
    assert len(rail.agent.payloads) == 1
    assert healing.framed(matter)


def test_a_message_and_the_healing_of_its_own_event_at_once_start_one_agent_run_of_it(
    healing: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event lost its claim, its acknowledgement was lost too, and it comes again."""
    rail = healing.rail
    matter, event = rail.world.matter(rail.world.firm_a), uuid4()
    text = body(rail.world.firm_a, matter, event_id=str(event))
    holder = rail.claimed_elsewhere(rail.world.firm_a, matter, uuid4())
    assert rail.deliver(text).outcome == ("claim_lost", "claim")
    assert rail.claims().release(holder)
    (request,) = healing.tick().run_requests or []
    rail.send(text)
    message = rail.receive()
    together, real = Barrier(2), FrameJobClaims.claim

    def met(*args: Any) -> Any:
        together.wait(30)
        return real(*args)

    monkeypatch.setattr(FrameJobClaims, "claim", met)

    def run(part: str) -> bool:
        with DagsterInstance.ephemeral() as own:
            side = Rail(rail.settings, rail.world, own, rail.agent)
            made = side.run(message) if part == "message" else Healing(side).run(request)
            return made.result.success

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, ("message", "healing"))) == [True, True]
    of_event = [r for r in rail.world.runs(matter) if r["trigger_event_id"] == str(event)]
    assert len(of_event) == len(rail.agent.payloads) == 1
    assert healing.framed(matter)


@pytest.mark.parametrize("ended", ["succeeded", "failed"])
def test_an_event_that_comes_again_weeks_later_is_a_duplicate(rail: Rail, ended: str) -> None:
    """However its run ended, and whatever the job did since; no window ends."""
    text = same_event_twice(rail.world)
    assert rail.deliver(text).outcome == STARTED
    rail.world.god.execute(
        "UPDATE agents.agent_run SET status = %s, created_at = created_at - interval '8 weeks', "
        "started_at = started_at - interval '8 weeks', "
        "finished_at = finished_at - interval '8 weeks'",
        [ended],
    )
    rail.world.god.execute(
        "UPDATE ops.matter_frame_jobs SET claimed_at = claimed_at - interval '8 weeks', "
        "requested_generation = 9, claimed_generation = 9"
    )
    assert rail.deliver(text).outcome == ("duplicate", "dedupe")
    assert rail.world.one("SELECT count(*) FROM agents.agent_run") == 1
    assert len(rail.agent.payloads) == 1
    assert rail.depth().total == 0


def test_a_run_key_is_no_part_of_the_decision(rail: Rail) -> None:
    """H12: two messages of one event have keys of their own, and the second ends as a duplicate."""
    text = same_event_twice(rail.world)
    rail.send(text, text)
    requests = [run_request(rail.receive()) for _ in range(2)]
    assert len({request.run_key for request in requests}) == 2
    outcomes = [rail.launch(request).outcome for request in requests]
    assert outcomes == [STARTED, ("duplicate", "dedupe")]
