"""Line 4: one batch of a table that has sent rows for years, and beside a transaction held open.

Against one batch of an empty table. A held transaction keeps every dead version of the rows that
were sent since it began, in the table and in the index that the drain reads.
"""

from dataclasses import dataclass, field
from time import perf_counter

import psycopg

from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST
from pramaan_pipelines.outbox.relay import run_relay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry
from pramaan_pipelines_tests.bench.ledger import account
from pramaan_pipelines_tests.bench.measure import Better, Line, Sample, interleaved
from pramaan_pipelines_tests.bench.site import Ground, Site
from pramaan_pipelines_tests.bench.workers.ours import NullSink
from pramaan_pipelines_tests.outbox.bench import put

BATCH = 500
BATCHES = 5
"""Of each go: one alone takes as long as the machine's next hiccup."""
SENT_WHILE_HELD = 10_000
REACH = 1.1
REACH_HELD = 1.5
ROUNDS = 30
"""Nine left the ratio of the medians anywhere between 0.9 and 1.3, at every size."""
QUICK_ROUNDS = 9

FILL = """
    INSERT INTO ops.document_ingest_outbox
        (firm_id, document_id, event_type, traceparent, dispatched_at)
    SELECT %s, gen_random_uuid(), 'document.ingest.requested',
           '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03', now()
    FROM generate_series(1, %s)
"""


@dataclass
class Table:
    """A lane with rows that were sent, of which each go drains one batch more.

    Attributes:
        name: how the table calls it.
        site: where.
        sent: rows sent before.
        held: rows sent since a transaction began that is still open; 0 where there is none.
    """

    name: str
    site: Site
    sent: int = 0
    held: int = 0
    ground: Ground = field(init=False)

    def __post_init__(self) -> None:
        self.ground = self.site.ground()
        self._database = Database.connect(self.ground.url)
        self.site.ending.callback(self._database.close)
        god = self.ground.world.god
        god.execute(FILL, [self.ground.world.firm_a, self.sent])
        god.execute("VACUUM ANALYZE ops.document_ingest_outbox")
        if self.held:
            self._hold()

    def _hold(self) -> None:
        url = self.site.server.admin_url(str(self.ground.world.god.info.dbname))
        holder = psycopg.connect(url)
        self.site.ending.callback(holder.close)
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT count(*) FROM ops.document_ingest_outbox")
        put(self.ground.world, DOCUMENT_INGEST, self.held)
        self._drain()

    def _drain(self) -> list[str]:
        sink = NullSink()
        run_relay(
            DOCUMENT_INGEST,
            database=self._database,
            publisher=sink,
            telemetry=Telemetry.current("bench"),
            limits=DrainLimits(rows=BATCH),
            budget_seconds=600,
        )
        return sink.seen

    def once(self) -> Sample:
        """Drain a few batches; what one takes."""
        written = put(self.ground.world, DOCUMENT_INGEST, BATCHES * BATCH)
        started = perf_counter()
        seen = self._drain()
        seconds = perf_counter() - started
        found = account(written, seen)
        return Sample(seconds * 1000 / BATCHES, found.lost, found.duplicated + found.unknown)


def lines(
    site: Site,
    sizes: tuple[int, ...] | None = None,
    *,
    while_held: int = SENT_WHILE_HELD,
    rounds: int | None = None,
) -> list[Line]:
    """Measure; the ten million take minutes to write, and only the full bench does.

    Args:
        site: where.
        sizes: rows that were sent.
        while_held: rows that are sent since the transaction began that is held open.
        rounds: goes of each; None takes enough, quick fewer.
    """
    sizes = sizes or ((10_000, 100_000) if site.quick else (10_000, 1_000_000, 10_000_000))
    tables = [
        Table("an empty table", site),
        *(Table(f"{size:,} rows sent", site, size) for size in sizes),
        Table("a transaction held open", site, held=while_held),
    ]
    empty, *grown, held = interleaved(tables, rounds or (QUICK_ROUNDS if site.quick else ROUNDS))
    lines = [Line(f"one batch, {f.name} before", "ms", f, empty, Better.LESS, REACH) for f in grown]
    note = f"{while_held:,} rows were sent since the transaction began"
    what = f"one batch beside {held.name}"
    return [*lines, Line(what, "ms", held, empty, Better.LESS, REACH_HELD, note)]
