"""What the lines about draining share: rows are written, a relay drains, arrivals are counted.

Promises: every contender of a line drains bodies of the same bytes, made by the same SQL, to the
same sink with the same delay; what it counts is the time from the start of the drain to the last
row's mark, its own start and imports left out.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pramaan_pipelines.outbox.lanes import Lane
from pramaan_pipelines_tests.bench.ledger import account
from pramaan_pipelines_tests.bench.measure import Sample
from pramaan_pipelines_tests.bench.site import BUS, QUEUE_URL, Ground, Site, Spoken
from pramaan_pipelines_tests.outbox.bench import put

BATCH: Final = 500
WORKERS: Final = 4
WORKER_MODULE: Final = "pramaan_pipelines_tests.bench.workers."


@dataclass
class Drainer:
    """A contender: a relay in a process of its own, with a database of its own.

    Attributes:
        name: how the table calls it.
        site: where.
        lane: whose rows.
        sink: `null`, `sqs` or `events`.
        rows: how many each go drains.
        delay: seconds that the sink takes.
        module: the worker's.
        python: the interpreter that runs it, or another command.
        fill: moves the rows that were written into the peer's own table; None where there is none.
        left: SQL that counts what the relay has not marked.
    """

    name: str
    site: Site
    lane: Lane
    sink: str
    rows: int
    delay: float = 0.0
    module: str = "ours"
    command: Sequence[str] | None = None
    fill: Callable[[Ground], None] | None = None
    left: str = ""
    ground: Ground = field(init=False)
    worker: Spoken = field(init=False)

    def __post_init__(self) -> None:
        self.ground = self.site.ground()
        command = self.command or [sys.executable, "-m", WORKER_MODULE + self.module]
        self.worker = self.site.spoken(command, {"PYTHONPATH": str(Path(__file__).parents[2])})
        self.worker.ask(json.dumps(self._order()))

    def once(self) -> Sample:
        """Write the rows, drain them, and count what arrived."""
        self.ground.world.god.execute(f"TRUNCATE {self.lane.outbox.table}")
        written = put(self.ground.world, self.lane, self.rows)
        if self.fill is not None:
            self.fill(self.ground)
        self.ground.world.god.execute("VACUUM ANALYZE")
        self.site.sink.ask(f"reset {self.delay}")
        answer = self.worker.ask("go")
        arrived = answer["seen"] if self.sink == "null" else self.site.sink.ask("ledger")
        found = account(written, arrived)
        lost = found.lost + self._not_marked()
        return Sample(self.rows / answer["seconds"], lost, found.duplicated + found.unknown)

    def _not_marked(self) -> int:
        """Count rows that it left, though it said that it was done: they would be sent again."""
        if self.left:
            return int(self.ground.world.one(self.left))
        return self.ground.world.pending(str(self.lane.event_type))

    def _order(self) -> dict[str, Any]:
        settings = self.site.settings(self.ground).model_dump(mode="json", exclude_none=True)
        settings["database_url"] = self.ground.url
        return {
            "settings": settings,
            "owner_url": self.ground.owner_url,
            "lane": self.lane.name,
            "event_type": str(self.lane.event_type),
            "table": self.lane.outbox.table,
            "body": self.lane.outbox.body,
            "sink": self.sink,
            "queue_url": QUEUE_URL,
            "bus": BUS,
            "batch": BATCH,
            "workers": WORKERS,
        }
