"""The gate order is the contract: by the graph, and by where an envelope wrong in two ways ends."""

from collections.abc import Callable
from itertools import pairwise
from uuid import UUID, uuid4

import pytest
from dagster import JobDefinition, MultiDependencyDefinition

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.orchestration import framer_ops
from pramaan_pipelines_tests.orchestration.bench import CALLS, GATES, Rail
from pramaan_pipelines_tests.support.world import body, envelope

GOES_ON_BY = {"dedupe": "fresh", "consent": "granted", "claim": "claimed", "invoke": "done"}
ENDS = {
    ("dedupe", "duplicate"),
    ("consent", "duplicate"),
    ("consent", "consent_blocked"),
    ("claim", "duplicate"),
    ("claim", "claim_lost"),
    ("claim", "consent_blocked"),
    ("invoke", "accepted"),
    ("invoke", "claim_lost"),
    ("invoke", "consent_blocked"),
    ("release", "result"),
}


@pytest.fixture(scope="module")
def job() -> JobDefinition:
    return defs.resolve_job_def("framer_trigger_job")


def _sources(job: JobDefinition) -> dict[str, set[tuple[str, str]]]:
    """For each op, the outputs that it waits for."""
    return {
        node.name: {
            (source.node, source.output)  # type: ignore[union-attr]
            for found in inputs.values()
            for source in (
                found.dependencies if isinstance(found, MultiDependencyDefinition) else [found]
            )
        }
        for node, inputs in job.dependencies.items()
    }


def test_each_gate_waits_for_the_one_before_it_and_for_nothing_else(job: JobDefinition) -> None:
    sources = _sources(job)
    assert sorted(sources) == sorted(GATES)
    assert sources["parse"] == set()
    for earlier, gate in pairwise(GATES[:-1]):
        assert sources[gate] == {(earlier, GOES_ON_BY.get(earlier, "result"))}


def test_a_healing_run_passes_the_same_gates_from_coherence_on() -> None:
    """H2: it has no message, and so neither parse, environment nor dedupe."""
    healing = _sources(defs.resolve_job_def("frame_healing_job"))
    whole = _sources(defs.resolve_job_def("framer_trigger_job"))
    assert healing["coherence"] == {("owed", "result")}
    assert sorted(healing) == sorted(["owed", *GATES[3:]])
    for gate in GATES[4:-1]:
        assert healing[gate] == whole[gate]
    assert healing["acknowledge"] == ENDS - {("dedupe", "duplicate")}


def test_every_output_leads_on_or_to_the_acknowledgement(job: JobDefinition) -> None:
    """No end of a run is left without its message deleted, and none is deleted on the way."""
    sources = _sources(job)
    assert sources["acknowledge"] == ENDS
    led_from = set().union(*sources.values())
    outputs = {
        (node.name, output)
        for node in job.nodes
        for output in node.definition.output_dict
        if node.name != "acknowledge"
    }
    assert led_from == outputs


def test_a_good_envelope_passes_the_gates_in_the_order_of_the_contract(
    rail: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    def noting(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def noted(*args: object, **named: object) -> object:
            called.append(name)
            return real(*args, **named)

        return noted

    for name, (where, attribute) in {**CALLS, "parse": (framer_ops, "read")}.items():
        monkeypatch.setattr(where, attribute, noting(name, getattr(where, attribute)))
    monkeypatch.setattr(rail.agent, "invoke", noting("the agent", rail.agent.invoke))
    run = rail.deliver(body(rail.world.firm_a, rail.world.matter(rail.world.firm_a)))
    assert run.ran == list(GATES)
    assert called == [*GATES[:7], "the agent", *GATES[7:]]


def _handled(rail: Rail) -> tuple[UUID, UUID, UUID]:
    """Firm, matter and event of what was handled already."""
    firm, event = rail.world.firm_a, uuid4()
    matter = rail.world.matter(firm)
    run = rail.deliver(envelope(firm, matter, event_id=event).model_dump_json())
    assert run.outcome == ("started", "release")
    return firm, matter, event


def test_malformed_comes_before_another_environment(rail: Rail) -> None:
    matter = rail.world.matter(rail.world.firm_a)
    text = body(rail.world.firm_a, matter, environment="production", schema_version=2)
    assert rail.deliver(text).outcome == ("refused", "parse")


def test_another_environment_comes_before_a_duplicate(rail: Rail) -> None:
    """EB-09 before EB-07: another environment's event says nothing about ours."""
    firm, matter, event = _handled(rail)
    text = body(firm, matter, event_id=str(event), environment="production")
    run = rail.deliver(text)
    assert run.outcome == ("refused", "environment")
    assert rail.depth().total == 1


def test_another_environment_comes_before_a_foreign_matter(rail: Rail) -> None:
    """EB-09 before EB-17."""
    matter = rail.world.matter(rail.world.firm_a)
    text = body(rail.world.firm_b, matter, environment="production")
    assert rail.deliver(text).outcome == ("refused", "environment")


def test_a_duplicate_comes_before_a_matter_that_is_not_there(rail: Rail) -> None:
    """EB-07 before EB-17: what was handled is acknowledged, whatever became of its matter."""
    firm, _, event = _handled(rail)
    text = envelope(firm, uuid4(), event_id=event).model_dump_json()
    assert rail.deliver(text).outcome == ("duplicate", "dedupe")


def test_a_duplicate_comes_before_a_consent_that_was_revoked(rail: Rail) -> None:
    """EB-07 before EB-11: no skip is written over what was done."""
    firm, matter, event = _handled(rail)
    rail.world.set_consent(firm, granted=False)
    before = rail.world.job(matter)
    text = envelope(firm, matter, event_id=event).model_dump_json()
    assert rail.deliver(text).outcome == ("duplicate", "dedupe")
    assert rail.world.job(matter) == before


def test_dedupe_looks_only_under_the_envelopes_own_firm(rail: Rail) -> None:
    """EB-06: another firm's event_id is no duplicate, and its run row is not seen."""
    _, _, event = _handled(rail)
    matter = rail.world.matter(rail.world.firm_b)
    text = envelope(rail.world.firm_b, matter, event_id=event).model_dump_json()
    assert rail.deliver(text).outcome == ("started", "release")


def test_a_foreign_matter_comes_before_a_missing_consent(rail: Rail) -> None:
    """EB-17 before EB-11: a forged envelope writes no skip either."""
    matter = rail.world.matter(rail.world.firm_a)
    text = body(rail.world.firm_without_consent, matter)
    assert rail.deliver(text).outcome == ("refused", "coherence")
    assert rail.world.rows("SELECT 1 FROM ops.matter_frame_jobs") == []


def test_a_missing_consent_comes_before_a_claim_that_would_be_lost(rail: Rail) -> None:
    """EB-11 before EB-16; H5: the running row goes on, and no rebuild is asked for."""
    firm = rail.world.firm_a
    matter = rail.world.matter(firm)
    holder = rail.claimed_elsewhere(firm, matter, uuid4())
    rail.world.set_consent(firm, granted=False)
    assert rail.deliver(body(firm, matter)).outcome == ("consent_blocked", "consent")
    job = rail.world.job(matter)
    assert job is not None
    assert (job["run_status"], job["claimed_generation"]) == ("running", holder.generation)
    assert (job["rebuild_needed"], job["last_skip_reason"]) == (False, "consent_blocked")
