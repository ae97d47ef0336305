"""A relay run: drains of one lane until it is empty or its time is spent.

Promises: it says why it stopped; a destination that takes nothing ends the run, and the next one
finds the rows pending; one that takes some of a batch is asked on, and the outage is still told.
Behind a full batch two drains may be under way, so that one sends while the other waits for the
database; SKIP LOCKED keeps their rows apart, and they share the bytes of one.
Never: holds a transaction from one drain to the next.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from threading import Lock
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
from pramaan_pipelines.outbox.selection import MAX_MESSAGE_BYTES, DrainLimits, Selection
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry

DEFAULT_BUDGET_SECONDS: Final = 45.0
"""Less than the schedule's minute, so that one run of a lane ends before the next begins."""

DRAINS_AT_ONCE: Final = 2
"""Of the live relay. A third would gain nothing: Postgres and this process have work for two."""

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
    at_once: int = 1,
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
        at_once: drains under way at once behind a first one that was full, at least 1; a selection
            that keeps its own progress, as a replay's does, takes no more than that.
    """
    progress = _Progress(run or RelayRun(), budget_seconds)

    def drain(bounds: DrainLimits) -> bool:
        return progress.goes_on(
            drain_batch(database, publisher, telemetry, bounds, lane, selection)
        )

    def drain_on(bounds: DrainLimits) -> None:
        try:
            while drain(bounds):
                pass
        except BaseException:
            progress.over = True
            raise

    more, beside = drain(limits), at_once - 1
    if more and beside and progress.run.selected >= limits.rows:
        shared = replace(limits, bytes=max(limits.bytes // at_once, MAX_MESSAGE_BYTES))
        with ThreadPoolExecutor(beside, thread_name_prefix="pramaan-drain") as pool:
            try:
                others = [pool.submit(drain_on, shared) for _ in range(beside)]
                drain_on(shared)
                for other in others:
                    other.result()
            except BaseException:
                # An interrupt reaches this thread alone, also while it only waits for the others.
                progress.over = True
                raise
    elif more:
        drain_on(limits)
    return progress.ended()


@dataclass
class _Progress:
    """What the drains of one run share.

    Attributes:
        run: the sums.
        budget_seconds: no drain starts after these.
        over: no other drain may start.
        left: the time was spent before the lane was empty.
    """

    run: RelayRun
    budget_seconds: float
    over: bool = False
    left: bool = False
    _started: float = field(default_factory=monotonic)
    _lock: Lock = field(default_factory=Lock)

    def goes_on(self, drain: DrainResult) -> bool:
        """Add what a drain came to; return whether another may follow."""
        with self._lock:
            self.run.add(drain)
            self.run.seconds = monotonic() - self._started
            # Rows that met an outage pause. Where others of the batch got through, the lane behind
            # them must not wait for a run each: one row that is never answered would slow it down
            # for good.
            if drain.outage is not None and drain.sent == 0:
                self.over = True
            spent = self.run.seconds >= self.budget_seconds
            self.left = self.left or (spent and drain.selected > 0)
            return drain.selected > 0 and not spent and not self.over

    def ended(self) -> RelayRun:
        """Return the sums, with why it ended."""
        if self.run.outage is not None:
            self.run.stopped_reason = StoppedReason.OUTAGE
        elif self.left:
            self.run.stopped_reason = StoppedReason.BUDGET
        return self.run
