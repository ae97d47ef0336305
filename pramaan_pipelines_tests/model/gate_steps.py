"""What a Dagster run of the framer job does at each gate, each in one transaction.

A run may die before any gate, and an op whose work was committed may be executed again: each is one
fault.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pramaan_pipelines_tests.model.rules import Model
from pramaan_pipelines_tests.model.state import (
    HEALING,
    NO_EVENT,
    AgentRun,
    At,
    Job,
    Message,
    Run,
    State,
    Step,
    Transition,
    bit,
    changed_at,
    has_run,
    is_held,
    moved,
)
from pramaan_pipelines_tests.model.upkeep_steps import failed_where, finished, is_needed

Gate = Callable[[Model, State, Run], Iterator[Transition]]


def run_steps(model: Model, state: State) -> Iterator[Transition]:
    """Each run under way passes its next gate, or dies before it."""
    seen = None
    for run in state.runs:  # in order, so that equal ones stand together
        if run == seen:
            continue
        seen = run
        if state.faults < model.setting.faults:
            step = Step("run", f"dies before {run.at}", run=run, fault=True)
            runs = moved(state.runs, run, None)
            yield Transition(step, state._replace(runs=runs, faults=state.faults + 1), fair=False)
        yield from GATES[run.at](model, state, run)


def _goes(state: State, run: Run, to: At, told: str, **changes: Any) -> Transition:
    """The run passes its gate with `changes` committed, and goes `to` the next."""
    then: Run | None = run._replace(at=to)
    if to == "acknowledge" and run.message == HEALING:
        then = None  # there is no message to acknowledge
    return _becomes(state, run, then, told, **changes)


def _becomes(state: State, run: Run, then: Run | None, told: str, **changes: Any) -> Transition:
    step = Step("run", run.at, run=run, told=told, generation=run.generation)
    return Transition(step, state._replace(runs=moved(state.runs, run, then), **changes))


def _again(model: Model, state: State, run: Run, told: str, **changes: Any) -> Iterator[Transition]:
    """The op committed, but its answer was lost: it is executed again."""
    if state.faults < model.setting.faults:
        step = Step(
            "run",
            run.at,
            run=run,
            generation=run.generation,
            fault=True,
            told=f"{told}, and is executed again",
        )
        yield Transition(step, state._replace(faults=state.faults + 1, **changes), fair=False)


def _dedupe(model: Model, state: State, run: Run) -> Iterator[Transition]:
    handled = has_run(state, model.event_of(run.message))
    if run.message == HEALING:
        # Without H2 it carries the event of the run that it mends, which has its run row.
        handled = bool(state.agent_runs)
    if handled:
        yield _goes(state, run, "acknowledge", "duplicate")
    elif model.setting.vanishes or model.event_of(run.message) in model.setting.forged:
        yield _goes(state, run, "coherence", "fresh")
    else:
        yield _goes(state, run, "consent", "fresh")


def _coherence(model: Model, state: State, run: Run) -> Iterator[Transition]:
    forged = model.event_of(run.message) in model.setting.forged
    if (forged or not state.matter) and model.rules.eb_17_coherence:
        yield _becomes(state, run, None, "refused")
    else:
        yield _goes(state, run, "consent", "visible")


def _consent(model: Model, state: State, run: Run) -> Iterator[Transition]:
    del model
    if state.consent:
        yield _goes(state, run, "claim", "granted")
    else:
        yield _goes(state, run, "skip", "blocked")


def _skip(model: Model, state: State, run: Run) -> Iterator[Transition]:
    event = model.event_of(run.message)
    if model.rules.h5_skip_looks_again and has_run(state, event):
        yield _goes(state, run, "acknowledge", "duplicate")
        return
    job = state.job or Job()
    if job.status == "running" and not model.rules.h5_skip_keeps_running:
        job = job._replace(status="idle", lease_over=False)
    changes = {"job": job, "skipped": state.skipped | bit(event)}
    yield _goes(state, run, "acknowledge", "consent_blocked", **changes)
    yield from _again(model, state, run, "consent_blocked", **changes)


def _claim(model: Model, state: State, run: Run) -> Iterator[Transition]:
    rules, job = model.rules, state.job or Job()
    free = job.status != "running" or job.lease_over or not rules.eb_16_exclusive_claim
    if run.message == HEALING and rules.h3_healing_claim_repeats_its_need:
        free = is_needed(model, job)
    if not free:
        yield from _lost(model, state, run, job)
    elif rules.h4_subject_in_the_claim and not state.matter:
        yield _becomes(state, run, None, "rolled back: refused, the matter is gone")
    elif rules.h4_consent_in_the_claim and not state.consent:
        yield _goes(state, run, "skip", "rolled back: consent is gone")
    else:
        yield from _won(model, state, run, job)


def _lost(model: Model, state: State, run: Run, job: Job) -> Iterator[Transition]:
    rules, event = model.rules, model.event_of(run.message)
    marked = job._replace(rebuild_needed=True)
    if run.message == HEALING:
        if rules.h3_lost_healing_marks_nothing:
            yield _goes(state, run, "acknowledge", "lost")
        else:
            yield _goes(state, run, "acknowledge", "lost, and marks rebuild_needed", job=marked)
    elif rules.h1_lost_claim_looks_again and has_run(state, event):
        yield _goes(state, run, "acknowledge", "lost: duplicate")
    elif rules.h1_mark_with_the_lost_claim:
        told, marked = "lost, and marks rebuild_needed", marked._replace(pending=event)
        yield _goes(state, run, "acknowledge", told, job=marked)
        yield from _again(model, state, run, told, job=marked)
    else:
        yield _goes(state, run, "mark", "lost")


def _mark(model: Model, state: State, run: Run) -> Iterator[Transition]:
    """Only where a rule is off: the mark of a lost claim, in a transaction of its own."""
    job = state.job or Job()
    marked = job._replace(rebuild_needed=True, pending=model.event_of(run.message))
    yield _goes(state, run, "acknowledge", "marks rebuild_needed", job=marked)


def _won(model: Model, state: State, run: Run, job: Job) -> Iterator[Transition]:
    rules, event = model.rules, model.event_of(run.message)
    by_message = run.message != HEALING
    handled = has_run(state, event)
    if handled and rules.h11_unique_violation_rolls_back:
        yield _goes(state, run, "acknowledge", "rolled back: duplicate")
        return
    generation = job.generation + 1
    trigger = event
    if not by_message and rules.h2_healing_takes_the_pending_event:
        trigger = NO_EVENT if has_run(state, job.pending) else job.pending
    agent_runs = state.agent_runs
    if rules.h7_take_over_fails_the_superseded:
        agent_runs = failed_where(agent_runs, lambda other: other.generation < generation)
    if not handled:
        covers = _sent(model, state)
        agent_runs += (AgentRun(trigger, generation, "running", invoked=False, covers=covers),)
    anew = by_message and rules.h8_message_starts_the_tries_anew
    changes: dict[str, Any] = {
        "job": Job(
            "running",
            rebuild_needed=job.rebuild_needed and not rules.eb_16_claim_clears_rebuild,
            generation=generation,
            failed_tries=0 if anew else job.failed_tries,
        ),
        "agent_runs": agent_runs,
        "failures": 0 if by_message else state.failures,
    }
    if handled:
        yield _goes(state, run, "acknowledge", "the claim stays, without a run row", **changes)
        return
    told = f"wins generation {generation}"
    to: At = "fence" if rules.fence_before_invoke else "invoke"
    yield _becomes(state, run, run._replace(at=to, generation=generation), told, **changes)
    yield from _again(model, state, run, told, **changes)


def _sent(model: Model, state: State) -> int:
    events = 0
    for number, message in enumerate(state.messages):
        event = model.event_of(number)
        if message.place != "unsent" and event not in model.setting.forged:
            events |= bit(event)
    return events


def _fence(model: Model, state: State, run: Run) -> Iterator[Transition]:
    job = state.job
    if job is None or not is_held(job, run.generation):
        yield _goes(state, run, "acknowledge", "lost")
    elif model.rules.h4_subject_at_the_fence and not state.matter:
        given_back = job._replace(status="idle", lease_over=False, rebuild_needed=False)
        cancelled = _cancelled(state, run)
        told = "refused, the matter is gone: given back"
        yield _becomes(state, run, None, told, job=given_back, agent_runs=cancelled)
    elif model.rules.h4_consent_at_the_fence and not state.consent:
        yield _goes(
            state,
            run,
            "acknowledge",
            "consent is gone: given back",
            job=job._replace(status="idle", lease_over=False, rebuild_needed=True),
            agent_runs=_cancelled(state, run),
        )
    else:
        yield _goes(state, run, "invoke", "held")


def _cancelled(state: State, run: Run) -> tuple[AgentRun, ...]:
    index = _index_of(state, run)
    ended = state.agent_runs[index]._replace(status="cancelled", covers=0)
    return changed_at(state.agent_runs, index, ended)


def _invoke(model: Model, state: State, run: Run) -> Iterator[Transition]:
    index = _index_of(state, run)
    agent_run = state.agent_runs[index]
    invoked = agent_run._replace(invoked=True)
    changes: dict[str, Any] = {"agent_runs": changed_at(state.agent_runs, index, invoked)}
    to: At = "release"
    told = "done"
    if model.setting.accepted:
        told = "accepted"
        to = "acknowledge" if model.rules.h10_accepted_releases_nothing else "release"
        if not agent_run.invoked:  # it dedupes by agent_run_id
            changes["agents"] = tuple(sorted((*state.agents, index)))
    yield _goes(state, run, to, told, **changes)
    yield from _again(model, state, run, told, **changes)


def _release(model: Model, state: State, run: Run) -> Iterator[Transition]:
    index, job = _index_of(state, run), state.job
    matches = is_held(job, run.generation) or not model.rules.eb_18_fenced_release
    if job is not None and matches:
        released = finished(state, job, index)
        changes = {
            "job": released.job,
            "agent_runs": released.agent_runs,
            "built": released.built,
            "failures": released.failures,
        }
        if not model.rules.eb_16_claim_clears_rebuild:
            changes["job"] = job._replace(
                status="idle", lease_over=False, failed_tries=0, rebuild_needed=False
            )
        yield _goes(state, run, "acknowledge", "given back", **changes)
        yield from _again(model, state, run, "given back", **changes)
    elif model.rules.h9_end_only_with_the_job:
        yield _goes(state, run, "acknowledge", "no row")
    else:
        late = state.agent_runs[index]._replace(status="succeeded", covers=0)
        agent_runs = changed_at(state.agent_runs, index, late)
        yield _goes(state, run, "acknowledge", "no row, but ends its run", agent_runs=agent_runs)


def _acknowledge(model: Model, state: State, run: Run) -> Iterator[Transition]:
    del model
    message = state.messages[run.message]
    if message.place in {"deleted", "dead"}:
        yield _becomes(state, run, None, "gone already")
        return
    gone = changed_at(state.messages, run.message, Message("deleted", 0))
    yield _becomes(state, run, None, "deleted", messages=gone)
    if message != Message("in_flight", run.delivery):
        yield _becomes(state, run, None, "the receipt is stale: nothing is deleted")


def _index_of(state: State, run: Run) -> int:
    return next(
        index
        for index, agent_run in enumerate(state.agent_runs)
        if agent_run.generation == run.generation
    )


GATES: dict[At, Gate] = {
    "dedupe": _dedupe,
    "coherence": _coherence,
    "consent": _consent,
    "skip": _skip,
    "claim": _claim,
    "mark": _mark,
    "fence": _fence,
    "invoke": _invoke,
    "release": _release,
    "acknowledge": _acknowledge,
}
