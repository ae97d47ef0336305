"""From a look to numbers: every gauge once, and what was not read is no number."""

import logging
from collections.abc import Callable, Iterable
from threading import Event, Thread
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from pramaan_pipelines.gauges import source as module
from pramaan_pipelines.gauges.source import Source
from pramaan_pipelines.gauges.values import (
    LANE_OF_DEAD_LETTERS,
    LANE_OF_QUEUE,
    OF_DATABASE,
    OF_QUEUES,
    Point,
    problems_of_database,
    problems_of_queues,
)
from pramaan_pipelines.messaging.queues import QUEUES
from pramaan_pipelines.outbox.lanes import LANES
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.metrics import GaugeMetric, UnregisteredMetricError
from pramaan_pipelines.watch.look import Watch
from pramaan_pipelines_tests.support.aws import settings_for
from pramaan_pipelines_tests.support.waiting import until

AGES = {GaugeMetric.DATABASE_READING_AGE, GaugeMetric.QUEUES_READING_AGE}
PENDING, AGE = GaugeMetric.OUTBOX_PENDING, GaugeMetric.DATABASE_READING_AGE


def test_every_gauge_of_the_registry_is_made_in_one_place() -> None:
    assert not OF_DATABASE.keys() & OF_QUEUES.keys()
    assert {*OF_DATABASE, *OF_QUEUES, *AGES} == set(GaugeMetric)


def test_every_queue_is_the_end_of_a_lane() -> None:
    assert set(LANE_OF_QUEUE.values()) == {lane.name for lane in LANES}
    assert {queue.name for queue in QUEUES} <= set(LANE_OF_QUEUE)
    assert set(LANE_OF_DEAD_LETTERS.values()) == {lane.name for lane in LANES}


def test_what_could_not_be_read_is_no_number_and_is_told() -> None:

    database = Database.connect("postgresql://nobody@127.0.0.1:1/none")
    watch = Watch(settings_for("http://127.0.0.1:1"), database)
    view = watch.database()
    assert [list(points(view)) for points in OF_DATABASE.values()] == [[]] * len(OF_DATABASE)
    assert len(problems_of_database(view)) == 1


class Look:
    """A look that does as it is told: gives a number, raises, or hangs."""

    def __init__(self) -> None:
        self.number: float = 1
        self.problems: list[str] = []
        self.raises: Exception | None = None
        self.hang: Event | None = None

    def __call__(self) -> float:
        if self.hang is not None:
            self.hang.wait(30)
        if self.raises is not None:
            raise self.raises
        return self.number


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What `monotonic` says; a test moves it."""
    now = [1000.0]
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def seen(clock: list[float]) -> tuple[Look, Source[float], Callable[[], dict[str, float]]]:
    """A look, its source, and what is exported of it."""
    del clock
    look = Look()

    def points(view: float) -> Iterable[Point]:
        yield view, {"lane": "domain_event_relay"}

    source = Source("it", look, {PENDING: points}, lambda _: look.problems, AGE, 10)
    reader = InMemoryMetricReader()
    source.register(MeterProvider([reader]).get_meter("test"))

    def exported() -> dict[str, float]:
        data = reader.get_metrics_data()
        assert data is not None
        metrics: Any = data.resource_metrics[0].scope_metrics[0].metrics
        return {m.name: point.value for m in metrics for point in m.data.data_points}

    return look, source, exported


Seen = tuple[Look, Source[float], Callable[[], dict[str, float]]]


def test_what_was_seen_last_is_shown_with_its_age(seen: Seen, clock: list[float]) -> None:
    look, source, exported = seen
    assert exported() == {AGE: 0}
    source.look()
    clock[0] += 7
    assert exported() == {PENDING: 1, AGE: 7}
    look.number = 5
    source.look()
    assert exported() == {PENDING: 5, AGE: 0}


def test_a_look_that_read_a_part_shows_it_and_is_not_whole(seen: Seen, clock: list[float]) -> None:
    look, source, exported = seen
    source.look()
    look.number, look.problems = 2, ["not read: x"]
    clock[0] += 60
    source.look()
    assert exported() == {PENDING: 2, AGE: 60}


def test_what_is_too_old_is_not_shown_and_its_age_is(seen: Seen, clock: list[float]) -> None:
    """A look that hangs leaves what was seen before; a stale number would look like a good one."""
    look, source, exported = seen
    source.look()
    look.raises = ValueError("broken")
    clock[0] += 89
    source.look()
    assert exported() == {PENDING: 1, AGE: 89}
    clock[0] += 2
    assert exported() == {AGE: 91}


def test_a_look_that_hangs_holds_up_no_export_and_no_end(seen: Seen) -> None:
    look, source, exported = seen
    look.hang, stop = Event(), Event()
    thread = Thread(target=source.keep_looking, args=[stop])
    thread.start()
    assert exported() == {AGE: 0}
    look.hang.set()
    until(lambda: PENDING in exported())
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def test_an_outage_is_told_once_and_so_is_its_end(
    seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    look, source, _ = seen
    source.look()
    look.problems = ["no connection"]
    for _ in range(3):
        source.look()
    look.problems = []
    for _ in range(3):
        source.look()
    assert [record.getMessage() for record in caplog.records] == [
        "it cannot be read: no connection",
        "it can be read again",
    ]


def test_a_gauge_with_another_label_is_an_error() -> None:
    def points(_: float) -> Iterable[Point]:
        yield 1, {"firm_id": "x"}

    source = Source("it", lambda: 1.0, {PENDING: points}, lambda _: [], AGE, 10)
    source.look()
    with pytest.raises(UnregisteredMetricError):
        list(source.observations(PENDING))


def test_queues_that_cannot_be_read_are_told(aws_environment: str) -> None:
    del aws_environment

    database = Database.connect("postgresql://nobody@127.0.0.1:1/none")
    view = Watch(settings_for("http://127.0.0.1:1"), database).queues()
    assert [list(points(view)) for points in OF_QUEUES.values()] == [[]] * len(OF_QUEUES)
    assert problems_of_queues(view)
