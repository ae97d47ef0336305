"""Breadth first through everything that can happen.

Promises: what is found is shown by a shortest trace; a trap is a state from which no fair path, one
without a further fault or revocation, leads to a good end.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from pramaan_pipelines_tests.model.gate_steps import run_steps
from pramaan_pipelines_tests.model.invariants import Soft, Violation, is_end, soft, violations
from pramaan_pipelines_tests.model.rules import Model
from pramaan_pipelines_tests.model.state import Message, State, Step, Transition
from pramaan_pipelines_tests.model.upkeep_steps import agent_steps, healing_steps, sweep_steps
from pramaan_pipelines_tests.model.world_steps import clock_steps, firm_steps, queue_steps

Trace = tuple[Step, ...]

ACTORS = (
    queue_steps,
    run_steps,
    clock_steps,
    sweep_steps,
    healing_steps,
    agent_steps,
    firm_steps,
)

SPARE_AGENT_RUNS = 3
"""Beyond events and faults: where a rule is off there may be ever more of them."""


def first_state(model: Model) -> State:
    """Return the state before anything happened."""
    setting = model.setting
    return State(
        messages=tuple(Message("unsent", 0) for _ in setting.events),
        consent=setting.consent,
        revocations_left=setting.revocations,
        matter=True,
        job=None,
        agent_runs=(),
        runs=(),
        agents=(),
        sweep=None,
        used_keys=frozenset(),
        faults=0,
        built=0,
        skipped=0,
        failures=0,
    )


def transitions(model: Model, state: State) -> Iterator[Transition]:
    """Yield everything that can happen next."""
    for steps in ACTORS:
        yield from steps(model, state)


@dataclass
class Found:
    """What a search came to.

    Attributes:
        states: how many there are.
        ends: how many of them are good ends.
        violations: each kind, with a shortest trace.
        soft: what cannot be closed, likewise.
        trap: a shortest trace into a trap, if there is one.
        whole: whether every state was looked at.
    """

    states: int = 0
    ends: int = 0
    violations: dict[Violation, Trace] = field(default_factory=dict)
    soft: dict[Soft, Trace] = field(default_factory=dict)
    trap: Trace | None = None
    whole: bool = True

    def __str__(self) -> str:
        lines = [f"{self.states} states, {self.ends} good ends"]
        lines += [f"{kind}:\n{shown(trace)}" for kind, trace in self.violations.items()]
        if self.trap is not None:
            lines.append(f"trap, from which nothing leads to a good end:\n{shown(self.trap)}")
        return "\n".join(lines)


def shown(trace: Trace) -> str:
    """Return a trace as numbered lines."""
    return "\n".join(f"  {number}. {step}" for number, step in enumerate(trace, 1))


class Search:
    """One exploration.

    Args:
        model: what to explore.
        until: a violation at which to stop.
        limit: of states; what lies behind them counts as good.
    """

    def __init__(
        self, model: Model, *, until: Violation | None = None, limit: int = 2_000_000
    ) -> None:
        self._model = model
        self._until = until
        self._limit = limit
        self._found = Found()
        start = first_state(model)
        self._numbers = {start: 0}
        self._states = [start]
        self._came_by: list[tuple[int, Step] | None] = [None]
        self._fair_before: list[list[int]] = [[]]
        self._unexplored: set[int] = set()

    def run(self) -> Found:
        """Look at every state, then for traps."""
        at, found = 0, self._found
        while at < len(self._states) and self._until not in found.violations:
            if len(self._states) > self._limit:
                self._unexplored.update(range(at, len(self._states)))
                break
            self._expand(at)
            at += 1
        found.states = len(self._states)
        found.whole = not self._unexplored
        if self._until not in found.violations:
            self._look_for_traps()
        return found

    def _expand(self, at: int) -> None:
        model, state, found = self._model, self._states[at], self._found
        if len(state.agent_runs) > len(model.setting.events) + state.faults + SPARE_AGENT_RUNS:
            self._unexplored.add(at)
            return
        for step, after, fair in transitions(model, state):
            for kind in violations(model, state, step, after):
                if kind not in found.violations:
                    found.violations[kind] = (*self._trace(at), step)
            for unclosed in soft(model, state, step):
                if unclosed not in found.soft:
                    found.soft[unclosed] = (*self._trace(at), step)
            number = self._numbers.get(after)
            if number is None:
                number = self._numbers[after] = len(self._states)
                self._states.append(after)
                self._came_by.append((at, step))
                self._fair_before.append([])
            if fair:
                self._fair_before[number].append(at)

    def _trace(self, at: int) -> Trace:
        steps: deque[Step] = deque()
        came_by = self._came_by[at]
        while came_by is not None:
            at, step = came_by
            steps.appendleft(step)
            came_by = self._came_by[at]
        return tuple(steps)

    def _look_for_traps(self) -> None:
        ends = [at for at, state in enumerate(self._states) if is_end(self._model, state)]
        self._found.ends = len(ends)
        good = bytearray(len(self._states))
        waiting = [*ends, *self._unexplored]
        while waiting:
            at = waiting.pop()
            if not good[at]:
                good[at] = 1
                waiting.extend(self._fair_before[at])
        trapped = good.find(0)
        if trapped >= 0:
            self._found.trap = self._trace(trapped)


def search(model: Model, *, until: Violation | None = None, limit: int = 2_000_000) -> Found:
    """Explore a model."""
    return Search(model, until=until, limit=limit).run()
