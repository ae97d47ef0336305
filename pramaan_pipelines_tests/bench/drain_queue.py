"""Line 2: a drain to SQS, against the story's algorithm and the libraries that do the same work.

Each go has about as many rows as its contender drains in a second or two: a rate does not depend
on it, and the slow would otherwise take minutes.
"""

from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST
from pramaan_pipelines_tests.bench import peers
from pramaan_pipelines_tests.bench.ceiling import sink_ceiling
from pramaan_pipelines_tests.bench.drains import Drainer
from pramaan_pipelines_tests.bench.measure import Figure, Line, interleaved
from pramaan_pipelines_tests.bench.site import Site

STORY_REACH = 20.0
PEER_REACH = 2.0
SLOW = 0.010


def lines(
    site: Site,
    rows: int | None = None,
    found: list[peers.Peer] | None = None,
    delays: tuple[float, ...] | None = None,
) -> list[Line]:
    """Measure.

    Args:
        site: where.
        rows: of every go; None takes what suits each contender.
        found: the peers; None installs them.
        delays: of the sink, in seconds; None takes both, quick the slow one alone.
    """
    if found is None:
        found = peers.installed(site.folder)
    takes = sink_ceiling(site)
    made: list[Line] = []
    for delay in delays or ((SLOW,) if site.quick else (0.0, SLOW)):
        contenders = [
            Drainer("ours", site, DOCUMENT_INGEST, "sqs", rows or 4_000, delay),
            Drainer(
                "row by row",
                *(site, DOCUMENT_INGEST, "sqs"),
                rows or (150 if delay else 500),
                delay,
                module="story",
            ),
            *(peer.drainer(site, rows, delay) for peer in found),
        ]
        ours, story, *others = interleaved(contenders, site.rounds)
        note = "" if made else f"the sink alone takes {takes:,.0f} rows/s at 0 ms"
        made.append(_line(delay, ours, story, STORY_REACH if delay else None, note))
        made += [_line(delay, ours, other, PEER_REACH) for other in others]
    return made


def _line(delay: float, ours: Figure, other: Figure, reach: float | None, note: str = "") -> Line:
    return Line(
        f"drain to SQS, {delay * 1000:.0f} ms", "rows/s", ours, other, reach=reach, note=note
    )
