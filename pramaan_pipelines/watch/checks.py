"""The checks on the road: from what stands where to passed, warn, error, or not evaluated.

Promises: one verdict a check, each with what to do; what could not be read is never passed.
Never: names more of a row than its ids, times and reason.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from pramaan_pipelines.framer.standing import Frames
from pramaan_pipelines.messaging.queues import DEAD_LETTERS
from pramaan_pipelines.outbox.backlog import WaitingRow
from pramaan_pipelines.outbox.lanes import LANES, OUTBOXES, Lane, Outbox
from pramaan_pipelines.settings import ViewSettings
from pramaan_pipelines.store.counting import Count
from pramaan_pipelines.watch.look import DatabaseView, QueuesView
from pramaan_pipelines.watch.reading import Reading

FRAME_JOBS: Final = "matter_frame_jobs"


class State(StrEnum):
    """What a check came to."""

    PASSED = "passed"
    WARN = "warn"
    ERROR = "error"
    NOT_EVALUATED = "not_evaluated"


@dataclass(frozen=True)
class Check:
    """One check of the road.

    Attributes:
        subject: what it looks at, as the asset graph calls it.
        name: of the check, unique for its subject.
        asks: what it asks.
        mend: what to press or to do when it is not green.
    """

    subject: str
    name: str
    asks: str
    mend: str


@dataclass(frozen=True)
class Rows:
    """The first few rows that a verdict is about, as ids, times and reasons; none where green."""

    head: tuple[str, ...] = ()
    cells: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What a check came to.

    Attributes:
        check: which.
        state: how it stands.
        told: one sentence.
        count: what decides, for telling whether anything changed.
        numbers: for plots.
        rows: what it names.
    """

    check: Check
    state: State
    told: str
    count: int = 0
    numbers: Mapping[str, float] = field(default_factory=dict)
    rows: Rows = Rows()


NameRows = Callable[[Lane], Reading[Sequence[WaitingRow]]]


def subject_of(outbox: Outbox) -> str:
    """Return what the asset graph calls `outbox`."""
    return outbox.table.removeprefix("ops.")


def _lane_check(lane: Lane, name: str, asks: str, mend: str) -> Check:
    return Check(subject_of(lane.outbox), f"{lane.name}_{name}", asks, mend)


PENDING: Final = {
    lane: _lane_check(
        lane,
        "pending",
        f"Are there too many pending `{lane.event_type}` rows?",
        f"Look at the last runs of {lane.name}_job: a red one names the destination that is out. "
        f"Launch {lane.name}_job to drain at once.",
    )
    for lane in LANES
}
OLDEST: Final = {
    lane: _lane_check(
        lane,
        "oldest",
        f"Has a `{lane.event_type}` row waited too long?",
        f"Is {lane.name}_schedule running, and is the daemon? Look at the last runs of "
        f"{lane.name}_job, then launch it.",
    )
    for lane in LANES
}
PARKED: Final = {
    lane: _lane_check(
        lane,
        "parked",
        f"Are `{lane.event_type}` rows parked, which nothing sends by itself?",
        f"Mend what the reason says, then launch redrive_parked_rows_job with lane {lane.name}: "
        "dry first, then with dry_run false.",
    )
    for lane in LANES
}
UNCLAIMED: Final = {
    outbox: Check(
        subject_of(outbox),
        "rows_without_a_lane",
        f"Does `{outbox.table}` hold pending rows whose event_type no lane drains?",
        "Nothing will ever send them: add a lane for the type in outbox/lanes.py, or mend the "
        "producer that writes it.",
    )
    for outbox in OUTBOXES
}
DEAD: Final = {
    name: Check(
        name,
        "is_empty",
        "Are there messages here that no consumer brought to its end?",
        f"Launch redrive_dead_letters_job with queue {name}: dry, it shows each with the reason; "
        "with dry_run false it sends them again.",
    )
    for name in DEAD_LETTERS
}
STALE: Final = Check(
    FRAME_JOBS,
    "stale",
    "Are there running frame jobs whose lease is over, which the sweep should have failed?",
    "Is stale_frame_job_sweep_schedule running, and is the daemon? Launch "
    "stale_frame_job_sweep_job to sweep now.",
)
GIVEN_UP: Final = Check(
    FRAME_JOBS,
    "given_up",
    "Are there frame jobs that failed too often to be healed?",
    "Search the runs by the tag pramaan/matter_id and read why they failed; once that is mended, "
    "launch rebuild_frame_job for each matter.",
)
BLOCKED: Final = Check(
    FRAME_JOBS,
    "consent_blocked",
    "Are there matters without a frame because their firm did not consent?",
    "Nothing is broken. When the firm consents, replay the days of its matters, or launch "
    "rebuild_frame_job for one of them.",
)
SCHEMA: Final = Check(
    FRAME_JOBS,
    "schema_at_head",
    "Is the database at the revision that this code needs?",
    "Run `pramaan migrate` as the owner; where the database is newer, deploy the newer code.",
)
CHECKS: Final = (
    *(check for lane in LANES for check in (PENDING[lane], OLDEST[lane], PARKED[lane])),
    *UNCLAIMED.values(),
    *DEAD.values(),
    STALE,
    GIVEN_UP,
    BLOCKED,
    SCHEMA,
)


def judge(
    view: DatabaseView,
    queues: QueuesView,
    limits: ViewSettings,
    *,
    name_pending: NameRows,
    name_parked: NameRows,
) -> Iterator[Verdict]:
    """Return the verdict of every check.

    Args:
        view: what stands in the database.
        queues: what stands on the queues.
        limits: the thresholds.
        name_pending: reads a lane's oldest pending rows; asked only where a check is not green.
        name_parked: the same of its parked rows.
    """
    for lane in LANES:
        yield from _lane(lane, view, limits, name_pending, name_parked)
    for outbox, check in UNCLAIMED.items():
        yield _unclaimed(outbox, check, view.unclaimed)
    for name, check in DEAD.items():
        yield _dead(check, queues, name, limits)
    yield _frames(STALE, view.unswept, State.ERROR)
    yield _frames(GIVEN_UP, view.given_up, State.ERROR)
    yield _frames(BLOCKED, view.consent_blocked, State.WARN)
    yield _schema(view)


def _lane(
    lane: Lane,
    view: DatabaseView,
    limits: ViewSettings,
    name_pending: NameRows,
    name_parked: NameRows,
) -> Iterator[Verdict]:
    reading = view.lanes[lane.name]
    left = reading.value
    if left is None:
        for checks in (PENDING, OLDEST, PARKED):
            yield not_evaluated(checks[lane], reading)
        return
    age = left.oldest_seconds
    pending = _grade(
        left.pending.number,
        limits.pramaan_check_pending_warn_rows,
        limits.pramaan_check_pending_error_rows,
    )
    oldest = _grade(
        age,
        limits.pramaan_check_oldest_warn_seconds,
        limits.pramaan_check_oldest_error_seconds,
    )
    parked = _grade(left.parked.number, 1, limits.pramaan_check_parked_error_rows)
    late = Rows() if pending is oldest is State.PASSED else _named(name_pending(lane))
    yield Verdict(
        PENDING[lane],
        pending,
        f"{left.pending} pending",
        left.pending.number,
        {
            "pending": left.pending.number,
            "warn_at": limits.pramaan_check_pending_warn_rows,
            "error_at": limits.pramaan_check_pending_error_rows,
        },
        Rows() if pending is State.PASSED else late,
    )
    yield Verdict(
        OLDEST[lane],
        oldest,
        f"the oldest pending row is {age:.0f} s old" if left.pending else "nothing is pending",
        int(age) if oldest is not State.PASSED else 0,
        {
            "oldest_seconds": round(age, 1),
            "warn_at": limits.pramaan_check_oldest_warn_seconds,
            "error_at": limits.pramaan_check_oldest_error_seconds,
        },
        Rows() if oldest is State.PASSED else late,
    )
    yield Verdict(
        PARKED[lane],
        parked,
        f"{left.parked} parked",
        left.parked.number,
        {
            "parked": left.parked.number,
            "warn_at": 1,
            "error_at": limits.pramaan_check_parked_error_rows,
        },
        Rows() if parked is State.PASSED else _named(name_parked(lane)),
    )


def _unclaimed(outbox: Outbox, check: Check, reading: Reading[Mapping[str, Count]]) -> Verdict:
    if reading.value is None:
        return not_evaluated(check, reading)
    ours = {
        kind.removeprefix(f"{outbox.table}: "): count
        for kind, count in reading.value.items()
        if kind.startswith(f"{outbox.table}: ")
    }
    total = sum(ours.values(), start=Count(0))
    return Verdict(
        check,
        State.ERROR if total else State.PASSED,
        f"{total} pending rows that no lane drains",
        total.number,
        {"rows": total.number},
        Rows(("event_type", "rows"), tuple((kind, str(count)) for kind, count in ours.items())),
    )


def _dead(check: Check, queues: QueuesView, name: str, limits: ViewSettings) -> Verdict:
    reading = queues.dead_letters[name]
    if reading.value is None:
        return not_evaluated(check, reading)
    total = reading.value.total
    return Verdict(
        check,
        _grade(total, 1, limits.pramaan_check_dead_letters_error),
        f"about {total} messages",
        total,
        {"messages": total, "warn_at": 1, "error_at": limits.pramaan_check_dead_letters_error},
    )


def _frames(check: Check, reading: Reading[Frames], state: State) -> Verdict:
    if reading.value is None:
        return not_evaluated(check, reading)
    found = reading.value
    return Verdict(
        check,
        state if found.count else State.PASSED,
        f"{found.count} frame jobs",
        found.count.number,
        {"frame_jobs": found.count.number},
        Rows(
            ("firm", "matter", "since"),
            tuple((str(f.firm_id), str(f.matter_id), _time(f.since)) for f in found.named),
        ),
    )


def _schema(view: DatabaseView) -> Verdict:
    schema = view.schema.value
    if schema is None:
        return not_evaluated(SCHEMA, view.schema)
    told = f"the database is at {schema.at or 'no revision'}"
    if schema.at_head:
        return Verdict(SCHEMA, State.PASSED, told)
    return Verdict(SCHEMA, State.ERROR, f"{told}, this code needs {schema.head}")


def not_evaluated(check: Check, reading: Reading[object]) -> Verdict:
    """Return the verdict of a check whose reading could not be made."""
    return Verdict(check, State.NOT_EVALUATED, f"NOT EVALUATED: {reading.problem}")


def _grade(found: float, warn: float, error: float) -> State:
    if found >= error:
        return State.ERROR
    return State.WARN if found >= warn else State.PASSED


def _named(reading: Reading[Sequence[WaitingRow]]) -> Rows:
    if reading.value is None:
        return Rows(("rows",), ((f"not read: {reading.problem}",),))
    return Rows(
        ("event_id", "since", "reason"),
        tuple((str(row.event_id), _time(row.since), row.reason or "-") for row in reading.value),
    )


def _time(value: datetime | None) -> str:
    return "-" if value is None else value.astimezone(UTC).isoformat(timespec="seconds")
