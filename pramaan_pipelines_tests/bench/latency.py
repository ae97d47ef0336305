"""Line 6: from the producer's commit to the message on the queue, through a real daemon.

The minute's schedule alone is uniform over its minute: what is measured is with the wake-up sensor.
The sink stands for the queue, and notes when each message came.
"""

from collections.abc import Sequence
from statistics import median, quantiles
from time import sleep, time

from pramaan_pipelines.outbox.producers import insert_document_ingest_event
from pramaan_pipelines_tests.bench.daemon import daemon, variables, wait_until
from pramaan_pipelines_tests.bench.ledger import account
from pramaan_pipelines_tests.bench.measure import Better, Figure, Line, Sample
from pramaan_pipelines_tests.bench.site import Ground, Site

REACH_MEDIAN = 6.0
REACH_P99 = 12.0
PAUSE_SECONDS = 1.3
"""Not a part of the sensor's five seconds, so that every phase of its loop is met."""
WARM_SECONDS = 8.0


def lines(site: Site, count: int | None = None) -> list[Line]:
    """Measure."""
    ground = site.ground()
    settings = site.settings(ground)
    with daemon(variables(settings, ground.url, PRAMAAN_WAKE_UP="true")):
        site.sink.ask("reset 0")
        # The first comes after the daemon's start, and is no part of it.
        _produce(ground)
        wait_until(lambda: site.sink.ask("times"))
        sleep(WARM_SECONDS)
        site.sink.ask("reset 0")
        written: dict[str, float] = {}
        for _ in range(count or (12 if site.quick else 120)):
            event_id = _produce(ground)
            written[event_id] = time()
            sleep(PAUSE_SECONDS)
        wait_until(lambda: len(site.sink.ask("times")) >= len(written))
        arrived, times = site.sink.ask("ledger"), site.sink.ask("times")
    found = account(written, arrived)
    came = dict(zip(reversed(arrived), reversed(times), strict=True))
    took = [came[event_id] - at for event_id, at in written.items()]
    return _lines(took, Sample(0, found.lost, found.duplicated + found.unknown))


def _produce(ground: Ground) -> str:
    world = ground.world
    document = world.document(world.firm_a)
    with world.database.firm(world.firm_a) as connection:
        event_id = insert_document_ingest_event(
            connection, firm_id=world.firm_a, document_id=document
        )
    return str(event_id)


def _lines(took: Sequence[float], fate: Sample) -> list[Line]:
    what = "commit to queue with the wake-up sensor, {} of {}"
    high = quantiles(took, n=100, method="inclusive")[98]
    note = "by the minute's schedule alone it is 0 to 60 s and the run's start, 30 s in the middle"
    return [
        Line(
            *(what.format("median", len(took)), "s", _figure(median(took), fate), None),
            *(Better.LESS, REACH_MEDIAN, note),
        ),
        Line(
            *(what.format("p99", len(took)), "s", _figure(high, fate), None),
            *(Better.LESS, REACH_P99),
        ),
    ]


def _figure(value: float, fate: Sample) -> Figure:
    return Figure("ours", (Sample(value, fate.lost, fate.duplicated),))
