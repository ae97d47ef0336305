"""Line 3: a drain to EventBridge, against the story's algorithm, row by row."""

from pramaan_pipelines.outbox.lanes import DOMAIN_EVENT
from pramaan_pipelines_tests.bench.drains import Drainer
from pramaan_pipelines_tests.bench.measure import Line, interleaved
from pramaan_pipelines_tests.bench.site import Site

REACH = 20.0
DELAY = 0.010


def lines(site: Site, rows: int | None = None) -> list[Line]:
    """Measure at 10 ms."""
    ours, story = interleaved(
        [
            Drainer("ours", site, DOMAIN_EVENT, "events", rows or 4_000, DELAY),
            Drainer("row by row", site, DOMAIN_EVENT, "events", rows or 150, DELAY, module="story"),
        ],
        site.rounds,
    )
    return [Line("drain to EventBridge, 10 ms", "rows/s", ours, story, reach=REACH)]
