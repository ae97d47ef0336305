"""A relay run: drains of one lane, one after another, until it is empty or its time is spent.

Promises: it says why it stopped; a destination that takes nothing ends the run, and the next one
finds the rows pending; one that takes some of a batch is asked on, and the outage is still told.
Never: holds a transaction from one drain to the next.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from time import monotonic
from typing import Final

from pramaan_pipelines.messaging.publisher import Publisher
from pramaan_pipelines.outbox.drain import (
    DUE,
    DrainResult,
    Failure,
)
from pramaan_pipelines.outbox.lanes import Lane
from pramaan_pipelines.outbox.salvage import drain_batch
from pramaan_pipelines.outbox.selection import DrainLimits, Selection
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry

DEFAULT_BUDGET_SECONDS: Final = 45.0
"""Less than the schedule's minute, so that one run of a lane ends before the next begins."""

MAX_FAILURES_SHOWN: Final = 20


class StoppedReason(StrEnum):
    """Why a relay run ended; OUTAGE also where it went on past one."""

    EMPTY = "empty"
    BUDGET = "budget"
    OUTAGE = "outage"


@dataclass
class RelayRun:
    """The sums over the drains of one run; fields as in `DrainResult`, seconds of wall time."""

    stopped_reason: StoppedReason = StoppedReason.EMPTY
    drains: int = 0
    selected: int = 0
    sent: int = 0
    again: int = 0
    failed: int = 0
    parked: int = 0
    bytes: int = 0
    seconds: float = 0.0
    outage: str | None = None
    failures: list[Failure] = field(default_factory=list)

    def add(self, drain: DrainResult) -> None:
        """Add what one drain came to."""
        self.drains += 1
        self.selected += drain.selected
        self.sent += drain.sent
        self.again += drain.again
        self.failed += drain.failed
        self.parked += drain.parked
        self.bytes += drain.bytes
        self.outage = drain.outage or self.outage
        room = MAX_FAILURES_SHOWN - len(self.failures)
        self.failures.extend(drain.failures[:room])


def run_relay(  # noqa: PLR0913
    lane: Lane,
    *,
    database: Database,
    publisher: Publisher,
    telemetry: Telemetry,
    limits: DrainLimits,
    budget_seconds: float = DEFAULT_BUDGET_SECONDS,
    selection: Selection = DUE,
    run: RelayRun | None = None,
) -> RelayRun:
    """Drain `lane` until it is empty, its destination takes nothing, or `budget_seconds` are spent.

    Args:
        lane: what to drain.
        database: as the service role.
        publisher: the lane's destination.
        telemetry: where each drain's span and duration go.
        limits: the bounds of each drain.
        budget_seconds: no drain starts after these.
        selection: which of the lane's rows; it is empty when a drain of it takes none.
        run: sums to go on with.
    """
    run, started = run or RelayRun(), monotonic()
    while True:
        drain = drain_batch(database, publisher, telemetry, limits, lane, selection)
        run.add(drain)
        run.seconds = monotonic() - started
        # Rows that met an outage pause. Where others of the batch got through, the lane behind them
        # must not wait for a run each: one row that is never answered would slow it down for good.
        out = drain.outage is not None and drain.sent == 0
        if drain.selected and not out and run.seconds < budget_seconds:
            continue
        if run.outage is not None:
            run.stopped_reason = StoppedReason.OUTAGE
        elif drain.selected:
            run.stopped_reason = StoppedReason.BUDGET
        return run
