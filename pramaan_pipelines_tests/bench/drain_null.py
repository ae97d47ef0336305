"""Line 1: a drain to a sink that takes everything at once, against the ceiling.

What is left between the two is everything of ours but the database: the span and its links, the
checks of each row, the marking by answer.
"""

from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST, DOMAIN_EVENT
from pramaan_pipelines_tests.bench.drains import Drainer
from pramaan_pipelines_tests.bench.measure import Line, interleaved
from pramaan_pipelines_tests.bench.site import Site

REACH = 0.8


def lines(site: Site, rows: int | None = None) -> list[Line]:
    """Measure a queue's lane and the bus's."""
    rows = rows or (5_000 if site.quick else 20_000)
    found = []
    for lane in (DOCUMENT_INGEST, DOMAIN_EVENT):
        ours, bare = interleaved(
            [
                Drainer("ours", site, lane, "null", rows),
                Drainer("bare psycopg", site, lane, "null", rows, module="bare"),
            ],
            site.rounds,
        )
        what = f"drain of {lane.name.removesuffix('_relay')} to a null sink"
        found.append(Line(what, "rows/s", ours, bare, reach=REACH))
    return found
