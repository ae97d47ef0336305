"""Line 5: the most memory that a relay holds, by its backlog and by the size of its rows.

Each go is a fresh process, whose peak is the kernel's own figure.
"""

import json
import sys
from dataclasses import dataclass

from psycopg.types.json import Jsonb

from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST, DOMAIN_EVENT, Lane
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines_tests.bench.drains import BATCH, WORKER_MODULE
from pramaan_pipelines_tests.bench.measure import Better, Line, Sample, interleaved
from pramaan_pipelines_tests.bench.site import Ground, Site, Spoken
from pramaan_pipelines_tests.outbox.bench import INSERT_DOMAIN_ROWS

REACH = 1.1
KIB_A_UNIT = 1024 if sys.platform == "linux" else 1024 * 1024
LARGE = 250 * 1024

INSERT_DOCUMENTS = """
    INSERT INTO ops.document_ingest_outbox (firm_id, document_id, event_type)
    SELECT %s, gen_random_uuid(), 'document.ingest.requested' FROM generate_series(1, %s)
"""


@dataclass
class Backlog:
    """A relay that starts, drains so many rows, and ends."""

    name: str
    site: Site
    ground: Ground
    lane: Lane
    rows: int
    large: bool = False

    def once(self) -> Sample:
        """Write, drain, and read the peak in MB."""
        world = self.ground.world
        world.god.execute(f"TRUNCATE {self.lane.outbox.table}")
        if self.large:
            self._put_large()
        else:
            world.god.execute(INSERT_DOCUMENTS, [world.firm_a, self.rows])
        worker = Spoken([sys.executable, "-m", f"{WORKER_MODULE}ours"])
        try:
            settings = self.site.settings(self.ground).model_dump(mode="json", exclude_none=True)
            settings["database_url"] = self.ground.url
            order = {"settings": settings, "lane": self.lane.name, "sink": "null", "batch": BATCH}
            worker.ask(json.dumps(order | {"forgets": True}))
            peak = worker.ask("go")["peak"] / KIB_A_UNIT
        finally:
            worker.close()
        return Sample(peak, lost=world.pending(str(self.lane.event_type)))

    def _put_large(self) -> None:
        # A field that no envelope has: the row is fetched whole, read, and parked. None that is
        # valid can be so large.
        world = self.ground.world
        world.god.execute(
            INSERT_DOMAIN_ROWS,
            {
                "firm": world.firm_a,
                "event_type": str(self.lane.event_type),
                "count": self.rows,
                "traceparent": None,
                "tracestate": None,
                "more": Jsonb({"padding": "x" * LARGE}),
            },
        )


def lines(site: Site, sizes: tuple[int, int] | None = None) -> list[Line]:
    """Measure; one round more than one tells nothing new of a peak.

    Args:
        site: where.
        sizes: of the small backlog and of the large one.
    """
    few, many = sizes or ((5_000, 50_000) if site.quick else (10_000, 1_000_000))
    ground, large = site.ground(), max(2, few // 50)
    small_rows, big_rows, few_large, many_large = interleaved(
        [
            Backlog(f"{few:,} rows", site, ground, DOCUMENT_INGEST, few),
            Backlog(f"{many:,} rows", site, ground, DOCUMENT_INGEST, many),
            Backlog(f"{large:,} rows of 250 kB", site, ground, DOMAIN_EVENT, large, large=True),
            Backlog(
                f"{5 * large:,} rows of 250 kB", site, ground, DOMAIN_EVENT, 5 * large, large=True
            ),
        ],
        1 if site.quick else 2,
    )
    budget = DrainLimits().bytes / 2**20
    more = many_large.values[0] - small_rows.values[0]
    note = f"{more:.0f} MB above the small rows; a batch's budget is {budget:.0f} MiB of bodies"
    what = "peak memory of a relay, {}"
    return [
        Line(what.format(big_rows.name), "MB", big_rows, small_rows, Better.LESS, REACH),
        Line(
            *(what.format(many_large.name), "MB", many_large, few_large),
            *(Better.LESS, REACH, note),
        ),
    ]
