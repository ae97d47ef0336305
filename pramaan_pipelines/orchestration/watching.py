"""The tick that looks at the road: checks that refresh by themselves, and numbers to plot.

Promises: a look a minute, without a run; an event only where something changed, or an hour has
passed, so that the event log does not grow while nothing happens.
Never: fails because one reading does; a reading that could not be made is a check that says so.
"""

import json
from collections.abc import Iterable, Mapping
from time import time
from typing import Final

from dagster import (
    AssetCheckEvaluation,
    AssetObservation,
    DefaultSensorStatus,
    ResourceParam,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from pramaan_pipelines.orchestration.checks import check_road_job, evaluation, verdicts
from pramaan_pipelines.orchestration.road import KEYS
from pramaan_pipelines.outbox.lanes import LANES
from pramaan_pipelines.settings import ViewSettings
from pramaan_pipelines.watch.checks import FRAME_JOBS, State, Verdict, subject_of
from pramaan_pipelines.watch.look import DatabaseView, QueuesView, Watch

LOOK_SECONDS: Final = 60
CHANGE_SECONDS: Final = 300
"""A number that changes at every look is told no more often than this."""
REFRESH_SECONDS: Final = 3600
"""A check that stays as it is, is told so often, so that its age shows that somebody looks."""

MAX_NAMED: Final = 8

Numbers = Mapping[str, float]


class Memory:
    """What was told last, and when: the sensor's cursor.

    Args:
        cursor: as `cursor` returned it; anything else means that nothing was told yet.
        now: of this tick, in epoch seconds.
    """

    def __init__(self, cursor: str | None, now: float) -> None:
        self._now = now
        self._told: dict[str, tuple[str, float]] = {}
        try:
            found = json.loads(cursor or "{}")
            self._told = {name: (str(what), float(at)) for name, (what, at) in found.items()}
        except (ValueError, TypeError, AttributeError):
            self._told = {}

    def is_news(self, name: str, what: str, *, changes: float, refresh: float | None) -> bool:
        """Tell whether `what` is to be told of `name` now, and remember it if so.

        Args:
            name: of a check or an asset.
            what: how it stands.
            changes: seconds for which a change is held back.
            refresh: seconds after which it is told again unchanged; None for never.
        """
        before, at = self._told.get(name, (None, float("-inf")))
        age = self._now - at
        due = age >= changes if what != before else refresh is not None and age >= refresh
        if due:
            self._told[name] = (what, self._now)
        return due

    @property
    def cursor(self) -> str:
        """What the next tick is to be given."""
        return json.dumps(
            {name: (what, round(at)) for name, (what, at) in self._told.items()},
            separators=(",", ":"),
        )


@sensor(
    job=check_road_job,
    minimum_interval_seconds=LOOK_SECONDS,
    default_status=DefaultSensorStatus.RUNNING,
    description=(
        "Looks at the outboxes, the queues and the frame jobs, and tells their checks and their "
        "numbers without a run: at once where a check changes its state, and every hour. Its skip "
        "reason names the checks that are not green."
    ),
)
def road_watch_sensor(
    context: SensorEvaluationContext,
    watch: ResourceParam[Watch],
    view_settings: ResourceParam[ViewSettings],
) -> SensorResult:
    """Look once, and tell the news."""
    memory = Memory(context.cursor, time())
    view, queues = watch.database(), watch.queues()
    found = verdicts(view, queues, watch, view_settings)
    events: list[AssetCheckEvaluation | AssetObservation]
    events = [*_checks(found, memory), *_observations(view, queues, memory)]
    return SensorResult(
        skip_reason=SkipReason(_summary(found, len(events))),
        asset_events=events,
        cursor=memory.cursor,
    )


def _checks(found: Iterable[Verdict], memory: Memory) -> Iterable[AssetCheckEvaluation]:
    for verdict in found:
        name = f"{verdict.check.subject}.{verdict.check.name}"
        # A new state is told at once; while it lasts, its numbers from time to time.
        state = memory.is_news(f"{name}!", str(verdict.state), changes=0, refresh=REFRESH_SECONDS)
        moved = verdict.state is not State.PASSED and memory.is_news(
            name, str(verdict.count), changes=CHANGE_SECONDS, refresh=None
        )
        if state or moved:
            yield evaluation(verdict)


def _observations(
    view: DatabaseView, queues: QueuesView, memory: Memory
) -> Iterable[AssetObservation]:
    for subject, numbers, still in _numbers(view, queues):
        told = json.dumps({key: value for key, value in numbers.items() if key not in still})
        if memory.is_news(subject, told, changes=CHANGE_SECONDS, refresh=None):
            yield AssetObservation(KEYS[subject], metadata=dict(numbers))


def _numbers(
    view: DatabaseView, queues: QueuesView
) -> Iterable[tuple[str, Numbers, frozenset[str]]]:
    """Yield what is known of each asset, and which of the numbers change by themselves."""
    outboxes: dict[str, dict[str, float]] = {}
    for lane in LANES:
        left = view.lanes[lane.name].value
        if left is not None:
            outboxes.setdefault(subject_of(lane.outbox), {}).update(
                {
                    f"{lane.name}_pending": left.pending.number,
                    f"{lane.name}_oldest_seconds": round(left.oldest_seconds, 1),
                    f"{lane.name}_parked": left.parked.number,
                }
            )
    for subject, numbers in outboxes.items():
        ages = frozenset(name for name in numbers if name.endswith("_oldest_seconds"))
        yield subject, numbers, ages
    for name, reading in (*queues.queues.items(), *queues.dead_letters.items()):
        depth = reading.value
        if depth is not None:
            yield (
                name,
                {
                    "visible": depth.visible,
                    "in_flight": depth.in_flight,
                    "delayed": depth.delayed,
                },
                frozenset(),
            )
    frames: dict[str, float] = {}
    for kind, waiting in {
        "stale": view.stale,
        "owed": view.owed,
        "given_up": view.given_up,
        "consent_blocked": view.consent_blocked,
    }.items():
        if waiting.value is not None:
            frames[kind] = waiting.value.count.number
    for status, count in (view.frame_jobs.value or {}).items():
        frames[status] = count.number
    if frames:
        yield FRAME_JOBS, frames, frozenset()


def _summary(found: Iterable[Verdict], events: int) -> str:
    bad = [verdict for verdict in found if verdict.state is not State.PASSED]
    told = f"{events} told"
    if not bad:
        return f"all checks are green; {told}"
    named = "; ".join(f"{v.check.name} ({v.state}): {v.told}" for v in bad[:MAX_NAMED])
    more = f"; and {len(bad) - MAX_NAMED} more" if len(bad) > MAX_NAMED else ""
    return f"NOT GREEN: {named}{more}. {told}"
