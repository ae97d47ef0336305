"""What the queue, its sensor, the clock and the firm do."""

from collections.abc import Iterator

from pramaan_pipelines_tests.model.rules import Model
from pramaan_pipelines_tests.model.state import (
    At,
    Message,
    Run,
    State,
    Step,
    Transition,
    changed_at,
)

OWNS: frozenset[At] = frozenset({"fence", "invoke", "release"})
"""Where a run that holds a claim may stand."""


def queue_steps(model: Model, state: State) -> Iterator[Transition]:
    """Messages are sent, received, hidden, shown again, set aside and put back."""
    for number, message in enumerate(state.messages):
        match message.place:
            case "unsent":
                if number == 0 or state.messages[number - 1].place != "unsent":
                    yield _put(state, "is sent", number, Message("queued", 0))
            case "queued":
                yield from _offer(model, state, number, message)
            case "in_flight":
                yield from _show_again(model, state, number, message)
            case "dead":
                passes = state.matter and model.event_of(number) not in model.setting.forged
                if model.rules.h13_redrive and passes:
                    yield _put(state, "is redriven", number, Message("queued", 0))
            case "deleted":
                pass


def _put(state: State, does: str, number: int, message: Message) -> Transition:
    step = Step("queue", does, number)
    return Transition(step, state._replace(messages=changed_at(state.messages, number, message)))


def _offer(model: Model, state: State, number: int, message: Message) -> Iterator[Transition]:
    if message.receives >= model.setting.max_receives:
        yield _put(state, "goes to the DLQ", number, Message("dead", 0))
        return
    if len(state.runs) >= model.setting.at_once:
        return
    delivery = message.receives + 1
    received = Message("in_flight", delivery)
    if not model.rules.delete_after_commit:
        received = Message("deleted", 0)
    messages = changed_at(state.messages, number, received)
    keys = state.used_keys
    if not model.rules.h12_message_key_is_fresh:
        if (number, delivery) in keys:
            step = Step("sensor", "receives", number, told="the run_key was used: no run")
            yield Transition(step, state._replace(messages=messages))
            return
        keys |= {(number, delivery)}
    run = Run(number, delivery, "dedupe" if model.rules.eb_07_dedupe else "coherence", 0)
    yield Transition(
        Step("sensor", "receives", number, run),
        state._replace(messages=messages, runs=tuple(sorted((*state.runs, run))), used_keys=keys),
    )
    if state.faults < model.setting.faults:
        step = Step("sensor", "receives and its tick dies", number, fault=True)
        yield Transition(
            step, state._replace(messages=messages, faults=state.faults + 1), fair=False
        )


def _show_again(model: Model, state: State, number: int, message: Message) -> Iterator[Transition]:
    shown = changed_at(state.messages, number, Message("queued", message.receives))
    alive = any(run.message == number and run.delivery == message.receives for run in state.runs)
    if not alive:
        yield Transition(Step("queue", "is visible again", number), state._replace(messages=shown))
    elif state.faults < model.setting.faults:
        step = Step("queue", "is visible again while its run lives", number, fault=True)
        yield Transition(step, state._replace(messages=shown, faults=state.faults + 1), fair=False)


def firm_steps(model: Model, state: State) -> Iterator[Transition]:
    """The firm grants, revokes or removes; that it grants at last may be counted on."""
    if model.setting.vanishes and state.matter:
        step = Step("world", "removes the matter")
        yield Transition(step, state._replace(matter=False), fair=False)
    if not state.consent:
        yield Transition(Step("world", "grants consent"), state._replace(consent=True))
    elif state.revocations_left:
        left = state.revocations_left - 1
        yield Transition(
            Step("world", "revokes consent"),
            state._replace(consent=False, revocations_left=left),
            fair=False,
        )


def clock_steps(model: Model, state: State) -> Iterator[Transition]:
    """A lease runs out: at last if its owner is dead, by a fault if its owner is merely slow."""
    job = state.job
    if job is None or job.status != "running" or job.lease_over:
        return
    over = state._replace(job=job._replace(lease_over=True))
    alive = any(run.generation == job.generation and run.at in OWNS for run in state.runs) or any(
        state.agent_runs[index].generation == job.generation for index in state.agents
    )
    step = Step("world", "lease runs out", generation=job.generation)
    if not alive:
        yield Transition(step._replace(told="its owner is dead"), over)
    elif state.faults < model.setting.faults:
        yield Transition(
            step._replace(told="its owner is slow", fault=True),
            over._replace(faults=state.faults + 1),
            fair=False,
        )
