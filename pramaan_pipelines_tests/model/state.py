"""What one matter's world is made of: plain tuples, so that millions of them can be compared.

Promises: a state says everything that the next step depends on, and two states that behave alike
are equal: what no longer matters is forgotten (see `ended_message`).
"""

from typing import Literal, NamedTuple, TypeVar

Place = Literal["unsent", "queued", "in_flight", "deleted", "dead"]
JobStatus = Literal["idle", "running", "failed"]
RunStatus = Literal["running", "succeeded", "failed", "cancelled"]
At = Literal[
    "dedupe",
    "coherence",
    "consent",
    "skip",
    "claim",
    "mark",
    "fence",
    "invoke",
    "release",
    "acknowledge",
]
"""What a Dagster run does next."""

HEALING = -1
"""In place of a message's number: the run was yielded by the healing sensor."""

NO_EVENT = -1

T = TypeVar("T")


class Message(NamedTuple):
    """One message on the framer queue."""

    place: Place
    receives: int


class Job(NamedTuple):
    """The matter's row in `ops.matter_frame_jobs`."""

    status: JobStatus = "idle"
    rebuild_needed: bool = False
    generation: int = 0
    lease_over: bool = False
    failed_tries: int = 0
    pending: int = NO_EVENT


class AgentRun(NamedTuple):
    """A row in `agents.agent_run`.

    Attributes:
        trigger: the event in trigger_event_id, or NO_EVENT.
        generation: the claim's.
        status: as in the table.
        invoked: whether the agent was called with this row's id.
        covers: the events that a frame built by this run takes in, as bits; forgotten at its end.
    """

    trigger: int
    generation: int
    status: RunStatus
    invoked: bool
    covers: int


class Run(NamedTuple):
    """A Dagster run of the framer job that is under way.

    Attributes:
        message: which message it was made for, or HEALING.
        delivery: which delivery of the message.
        at: the gate that comes next.
        generation: of its claim; 0 before it.
    """

    message: int
    delivery: int
    at: At
    generation: int


class SweepUnderWay(NamedTuple):
    """Only where a rule of the sweep is off: it stands between two transactions."""

    does_next: Literal["fail_job", "fail_run"]
    generation: int


class State(NamedTuple):
    """Everything at one moment. The last four fields are a book-keeper's, no actor reads them."""

    messages: tuple[Message, ...]
    consent: bool
    revocations_left: int
    matter: bool
    """Whether it is still there."""
    job: Job | None
    agent_runs: tuple[AgentRun, ...]
    runs: tuple[Run, ...]
    agents: tuple[int, ...]
    """Agents at work on their own, by the index of their agent run."""
    sweep: SweepUnderWay | None
    used_keys: frozenset[tuple[int, int]]
    faults: int
    built: int
    """Events that a finished frame takes in, as bits."""
    skipped: int
    """Events that ended as consent_blocked, as bits."""
    failures: int
    """Failures in a row since a message's claim or a success: what failed_tries should say."""


class Step(NamedTuple):
    """What happened, in words that a replay on the real code can follow.

    Attributes:
        actor: who.
        does: what.
        number: the message's, or the agent run's index.
        run: the Dagster run, as it stood before the step.
        generation: the one that the actor holds or aims at.
        told: what came of it.
        fault: whether a fault was spent on it.
    """

    actor: Literal["queue", "sensor", "run", "sweep", "healing", "agent", "world"]
    does: str
    number: int = 0
    run: Run | None = None
    generation: int = 0
    told: str = ""
    fault: bool = False

    def __str__(self) -> str:
        who: str = self.actor
        if self.run is not None:
            run = self.run
            who = "healing run" if run.message == HEALING else f"run m{run.message}#{run.delivery}"
            who += f" g{run.generation}" if run.generation else ""
        elif self.actor in {"queue", "sensor"}:
            who += f" m{self.number}"
        elif self.actor == "agent":
            who += f" g{self.generation}"
        told = f": {self.told}" if self.told else ""
        return f"{who} {self.does}{told}{' [fault]' if self.fault else ''}"


class Transition(NamedTuple):
    """A step and where it leads; `fair` if one may count on it to happen at last."""

    step: Step
    state: State
    fair: bool = True


def bit(event: int) -> int:
    """Return the event as a bit; none for NO_EVENT."""
    return 0 if event == NO_EVENT else 1 << event


def changed_at(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    """Return the items with the one at `index` replaced."""
    return (*items[:index], item, *items[index + 1 :])


def moved(runs: tuple[Run, ...], run: Run, to: Run | None) -> tuple[Run, ...]:
    """Return the runs with one replaced or ended, in order: equal runs are interchangeable."""
    index = runs.index(run)
    rest = runs[:index] + runs[index + 1 :]
    return rest if to is None else tuple(sorted((*rest, to)))


def is_held(job: Job | None, generation: int) -> bool:
    """Whether the claim of `generation` holds the job."""
    return job is not None and job.status == "running" and job.generation == generation


def has_run(state: State, event: int) -> bool:
    """Whether the event has its run row."""
    return event != NO_EVENT and any(run.trigger == event for run in state.agent_runs)
