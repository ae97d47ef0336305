"""What must never be, what cannot be closed, and what is a good end.

Promises: an invariant looks at a step and the states on its two sides, and at nothing else.
"""

from collections.abc import Iterator
from enum import StrEnum

from pramaan_pipelines_tests.model.rules import Model
from pramaan_pipelines_tests.model.state import (
    HEALING,
    Job,
    Run,
    State,
    Step,
    bit,
    has_run,
    is_held,
)

RELEASING = frozenset({"release", "fence"})


class Violation(StrEnum):
    """What must never be."""

    TWO_LIVE_RUNS = "two agent runs of the matter are running"
    ORPHAN_RUN = "an agent run is running whose claim is not the live one"
    CLAIM_WITHOUT_RUN = "a claim was committed without its run row"
    GENERATION_SHRANK = "a generation did not grow"
    LATE_WRITE = "a write of an older generation changed something"
    FAILED_THEN_SUCCEEDED = "an agent run went from failed or cancelled to succeeded"
    SUCCEEDED_THEN_FAILED = "an agent run went from succeeded to failed"
    RUN_WITHOUT_CONSENT = "a run row was written without consent"
    FENCE_WITHOUT_CONSENT = "the last look let an agent be called without consent"
    LOST_CLAIM_INVOKED = "an agent was called for a claim that was lost before the last look"
    RUN_WITHOUT_MATTER = "a run row was written for a matter that is gone"
    FENCE_WITHOUT_MATTER = "the last look let an agent be called for a matter that is gone"
    LIVE_CLAIM_TAKEN = "a live claim was taken over before its lease was over"
    FORGED_FRAMED = "a forged envelope made an agent run"
    TOO_MANY_RUNS = "more agent runs than events and faults"
    SKIP_OVERWROTE_RUNNING = "a skip changed a running row's status"
    SKIP_OF_HANDLED = "an event that has its run row was recorded as skipped"
    SWEPT_ALIVE = "the sweep failed a job whose lease had been renewed"
    SWEPT_ANOTHER = "the sweep failed an agent run of another generation"
    RELEASED_AT_WORK = "a job was given back while its agent works"
    HEALED_BEYOND_BOUND = "a job was healed beyond the bound"


class Soft(StrEnum):
    """What cannot be closed: reported, never a violation."""

    ZOMBIE_INVOKE = "an agent was called for a claim lost between the last look and the call"
    REPEATED_INVOKE = "an agent was called twice with the same agent_run_id"
    INVOKE_AFTER_REVOCATION = "consent was revoked between the last look and the call"


def violations(model: Model, before: State, step: Step, after: State) -> Iterator[Violation]:
    """Yield what a step broke."""
    if after.agent_runs is not before.agent_runs or after.job is not before.job:
        yield from _of_rows(model, before, after)
        yield from _of_writes(before, step, after)
    if step.run is not None:
        yield from _of_gates(model, before, step, step.run, after)
    if step.actor == "sweep":
        yield from _of_the_sweep(before, step, after)


def _of_rows(model: Model, before: State, after: State) -> Iterator[Violation]:
    job = after.job
    live = [run for run in after.agent_runs if run.status == "running"]
    if len(live) > 1:
        yield Violation.TWO_LIVE_RUNS
    if any(not is_held(job, run.generation) for run in live):
        yield Violation.ORPHAN_RUN
    if job is not None:
        if before.job is not None and job.generation < before.job.generation:
            yield Violation.GENERATION_SHRANK
        if job.status == "running" and not any(run.generation == job.generation for run in live):
            yield Violation.CLAIM_WITHOUT_RUN
    for old, new in zip(before.agent_runs, after.agent_runs, strict=False):
        if old.status in {"failed", "cancelled"} and new.status == "succeeded":
            yield Violation.FAILED_THEN_SUCCEEDED
        if old.status == "succeeded" and new.status != "succeeded":
            yield Violation.SUCCEEDED_THEN_FAILED
    if len(after.agent_runs) > len(before.agent_runs):
        yield from _of_a_new_run(model, before, after)


def _of_a_new_run(model: Model, before: State, after: State) -> Iterator[Violation]:
    if not before.consent:
        yield Violation.RUN_WITHOUT_CONSENT
    if not before.matter:
        yield Violation.RUN_WITHOUT_MATTER
    job = before.job
    if job is not None and job.status == "running" and not job.lease_over:
        yield Violation.LIVE_CLAIM_TAKEN
    if after.agent_runs[-1].trigger in model.setting.forged:
        yield Violation.FORGED_FRAMED
    if job is not None and job.generation >= after.agent_runs[-1].generation:
        yield Violation.GENERATION_SHRANK
    made = sum(run.status != "cancelled" or run.invoked for run in after.agent_runs)
    if made > sent_events(model, after).bit_count() + after.faults:
        yield Violation.TOO_MANY_RUNS


def _of_writes(before: State, step: Step, after: State) -> Iterator[Violation]:
    """What holds a generation may write only while that one is the live claim."""
    by_run = step.actor == "run" and step.does in RELEASING
    if not (by_run or step.actor == "agent") or is_held(before.job, step.generation):
        return
    if after.job != before.job or after.agent_runs != before.agent_runs:
        yield Violation.LATE_WRITE


def _of_gates(
    model: Model, before: State, step: Step, run: Run, after: State
) -> Iterator[Violation]:
    match step.does:
        case "skip":
            yield from _of_a_skip(before, model.event_of(run.message), after)
        case "claim" if run.message == HEALING:
            yield from _of_healing(model, before, after)
        case "fence" | "invoke":
            yield from _of_the_last_look(model, before, step, run)
        case "release":
            yield from _of_a_release(before, run, after)


def _of_a_skip(before: State, event: int, after: State) -> Iterator[Violation]:
    job = before.job
    if job is not None and job.status == "running" and after.job != job:
        yield Violation.SKIP_OVERWROTE_RUNNING
    if after.skipped != before.skipped and has_run(before, event):
        yield Violation.SKIP_OF_HANDLED


def _of_healing(model: Model, before: State, after: State) -> Iterator[Violation]:
    if len(after.agent_runs) == len(before.agent_runs):
        return
    asked_for = before.job is not None and before.job.rebuild_needed
    if not asked_for and before.failures > model.setting.bound:
        yield Violation.HEALED_BEYOND_BOUND


def _of_the_last_look(model: Model, before: State, step: Step, run: Run) -> Iterator[Violation]:
    if step.does == "fence" and step.told == "held":
        if not is_held(before.job, run.generation):
            yield Violation.LOST_CLAIM_INVOKED
        if not before.consent:
            yield Violation.FENCE_WITHOUT_CONSENT
        if not before.matter:
            yield Violation.FENCE_WITHOUT_MATTER
    unfenced = step.does == "invoke" and not model.rules.fence_before_invoke
    if unfenced and not is_held(before.job, run.generation):
        yield Violation.LOST_CLAIM_INVOKED


def _of_a_release(before: State, run: Run, after: State) -> Iterator[Violation]:
    at_work = any(before.agent_runs[index].generation == run.generation for index in before.agents)
    if at_work and after.job != before.job:
        yield Violation.RELEASED_AT_WORK


def _of_the_sweep(before: State, step: Step, after: State) -> Iterator[Violation]:
    changed = before.job is not None and after.job != before.job
    if changed and before.job is not None and not before.job.lease_over:
        yield Violation.SWEPT_ALIVE
    for old, new in zip(before.agent_runs, after.agent_runs, strict=True):
        if old.status != new.status and new.generation != step.generation:
            yield Violation.SWEPT_ANOTHER


def soft(model: Model, before: State, step: Step) -> Iterator[Soft]:
    """Yield what a step did that cannot be closed."""
    if step.does != "invoke" or step.run is None or not model.rules.fence_before_invoke:
        return
    if not is_held(before.job, step.run.generation):
        yield Soft.ZOMBIE_INVOKE
    if not before.consent:
        yield Soft.INVOKE_AFTER_REVOCATION
    for agent_run in before.agent_runs:
        if agent_run.generation == step.run.generation and agent_run.invoked:
            yield Soft.REPEATED_INVOKE


def sent_events(model: Model, state: State) -> int:
    """Return the good events that were sent, as bits."""
    events = 0
    for number, message in enumerate(state.messages):
        event = model.event_of(number)
        if message.place != "unsent" and event not in model.setting.forged:
            events |= bit(event)
    return events


def is_end(model: Model, state: State) -> bool:
    """Whether everything came to its end: nothing under way, and each event has what it may get.

    That is a frame that takes it in, a skip that says why not, or, past the bound, a job that stays
    failed for an operator to see. A forged message ends on the DLQ; a matter that is gone is owed
    nothing.
    """
    if state.runs or state.agents or state.sweep:
        return False
    if any(run.status == "running" for run in state.agent_runs):
        return False
    return all(_has_ended(model, state, number) for number in range(len(state.messages))) and (
        not state.matter or _has_all_it_may_get(model, state)
    )


def _has_ended(model: Model, state: State, number: int) -> bool:
    match state.messages[number].place:
        case "queued" | "in_flight":
            return False
        case "dead":
            return not state.matter or model.event_of(number) in model.setting.forged
        case _:
            return True


def _has_all_it_may_get(model: Model, state: State) -> bool:
    job, sent = state.job or Job(), sent_events(model, state)
    if job.status == "running" or job.rebuild_needed:
        return False
    given_up = job.status == "failed" and state.failures > model.setting.bound
    return given_up or not sent & ~(state.built | state.skipped)
