"""From a look of the watch to the gauges of the registry.

Promises: every gauge of the registry is made from one place here; a reading that could not be made
is no number, and never a zero.
Never: puts a firm, a row or a stranger's text into a label.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pramaan_pipelines.framer.standing import Frames
from pramaan_pipelines.messaging.queues import FRAMER_EVENTS, QUEUES, UNDELIVERABLE
from pramaan_pipelines.outbox.backlog import Backlog
from pramaan_pipelines.outbox.lanes import DOMAIN_EVENT, LANES
from pramaan_pipelines.telemetry.metrics import GaugeMetric
from pramaan_pipelines.watch.look import DatabaseView, QueuesView
from pramaan_pipelines.watch.reading import Reading

Labels = Mapping[str, str]
Point = tuple[float, Labels]

LANE_OF_QUEUE: Final[Mapping[str, str]] = {
    **{lane.destination: lane.name for lane in LANES},
    FRAMER_EVENTS.name: DOMAIN_EVENT.name,
}
"""The lane that a queue is the end of; the framer's is behind the bus."""

LANE_OF_DEAD_LETTERS: Final[Mapping[str, str]] = {
    queue.dead_letters: LANE_OF_QUEUE[queue.name] for queue in QUEUES
}


def _per_lane(number: Callable[[Backlog], float]) -> Callable[[DatabaseView], Iterable[Point]]:
    def points(view: DatabaseView) -> Iterable[Point]:
        for lane, reading in view.lanes.items():
            if reading.value is not None:
                yield number(reading.value), {"lane": lane}

    return points


def _frames(
    which: Callable[[DatabaseView], Reading[Frames]],
) -> Callable[[DatabaseView], Iterable[Point]]:
    def points(view: DatabaseView) -> Iterable[Point]:
        found = which(view).value
        if found is not None:
            yield found.count.number, {}

    return points


def _unclaimed(view: DatabaseView) -> Iterable[Point]:
    if view.unclaimed.value is not None:
        yield sum(count.number for count in view.unclaimed.value.values()), {}


def _frame_jobs(view: DatabaseView) -> Iterable[Point]:
    for status, count in (view.frame_jobs.value or {}).items():
        yield count.number, {"status": status}


def _queues(view: QueuesView) -> Iterable[Point]:
    for name, reading in view.queues.items():
        depth = reading.value
        if depth is not None:
            lane = LANE_OF_QUEUE[name]
            yield depth.visible, {"lane": lane, "status": "visible"}
            yield depth.in_flight, {"lane": lane, "status": "in_flight"}
            yield depth.delayed, {"lane": lane, "status": "delayed"}


def _dead_letters(view: QueuesView) -> Iterable[Point]:
    for name, lane in LANE_OF_DEAD_LETTERS.items():
        depth = view.dead_letters[name].value
        if depth is not None:
            yield depth.total, {"lane": lane}


def _undeliverable(view: QueuesView) -> Iterable[Point]:
    depth = view.dead_letters[UNDELIVERABLE].value
    if depth is not None:
        yield depth.total, {}


OF_DATABASE: Final[Mapping[GaugeMetric, Callable[[DatabaseView], Iterable[Point]]]] = {
    GaugeMetric.OUTBOX_PENDING: _per_lane(lambda left: left.pending.number),
    GaugeMetric.OUTBOX_OLDEST_PENDING: _per_lane(lambda left: left.oldest_seconds),
    GaugeMetric.OUTBOX_PARKED: _per_lane(lambda left: left.parked.number),
    GaugeMetric.OUTBOX_UNCLAIMED: _unclaimed,
    GaugeMetric.FRAME_JOBS: _frame_jobs,
    GaugeMetric.FRAME_JOBS_STALE: _frames(lambda view: view.stale),
    GaugeMetric.FRAME_JOBS_OWED: _frames(lambda view: view.owed),
    GaugeMetric.FRAME_JOBS_GIVEN_UP: _frames(lambda view: view.given_up),
    GaugeMetric.FRAME_JOBS_CONSENT_BLOCKED: _frames(lambda view: view.consent_blocked),
}

OF_QUEUES: Final[Mapping[GaugeMetric, Callable[[QueuesView], Iterable[Point]]]] = {
    GaugeMetric.QUEUE_DEPTH: _queues,
    GaugeMetric.DEAD_LETTERS: _dead_letters,
    GaugeMetric.UNDELIVERABLE: _undeliverable,
}


def problems_of_database(view: DatabaseView) -> list[str]:
    """Return why readings of the database could not be made, each once; empty where all were."""
    readings: list[Reading[object]] = [
        *view.lanes.values(),
        view.unclaimed,
        view.frame_jobs,
        view.stale,
        view.owed,
        view.given_up,
        view.consent_blocked,
    ]
    return _problems(readings)


def problems_of_queues(view: QueuesView) -> list[str]:
    """Return why depths could not be read, each once; empty where all were."""
    return _problems([*view.queues.values(), *view.dead_letters.values()])


def _problems(readings: Iterable[Reading[object]]) -> list[str]:
    return list(dict.fromkeys(r.problem for r in readings if r.problem is not None))
