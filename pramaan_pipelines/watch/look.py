"""The look: every reading of what stands where, by its name.

Promises: each reading is a transaction, or a call, of its own, bounded in time and in rows; what
lies beyond the look's time, or behind a database that gives no connection, is told as not read.
Never: changes anything; names a firm but where a row is named for an operator.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import Connection

from pramaan_pipelines.errors import DatabaseUnavailableError
from pramaan_pipelines.framer import standing
from pramaan_pipelines.framer.standing import Frames
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueDepth
from pramaan_pipelines.messaging.queues import (
    QUEUES,
    UNDELIVERABLE,
    WatchedQueue,
    consumer_of,
    undeliverable_events,
)
from pramaan_pipelines.outbox.backlog import (
    Backlog,
    WaitingRow,
    backlog,
    first_parked,
    oldest_pending,
    unclaimed_events,
)
from pramaan_pipelines.outbox.lanes import LANES, Lane
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.counting import Count, by_index
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.watch.reading import Reading, take

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

T = TypeVar("T")

LOOK_SECONDS: Final = 20.0
"""No reading starts later than this; well under the 60 s that a tick of Dagster's may take."""

GRACE_SECONDS: Final = 180
MAX_NAMED: Final = 10


@dataclass(frozen=True)
class Schema:
    """Which revision the database is at, and which this code needs."""

    at: str | None
    head: str

    @property
    def at_head(self) -> bool:
        """Whether the two agree."""
        return self.at == self.head


@dataclass(frozen=True)
class DatabaseView:
    """What stands in the database.

    Attributes:
        lanes: each lane's backlog, by the lane's name.
        unclaimed: pending rows that no lane drains, by table and type.
        frame_jobs: frame jobs by run_status.
        stale: running frame jobs whose lease is over.
        unswept: those of them that the sweep should have failed by now.
        owed: frame jobs that healing takes up.
        given_up: frame jobs that failed too often to be healed.
        consent_blocked: matters that stopped at consent.
        schema: the revision.
    """

    lanes: Mapping[str, Reading[Backlog]]
    unclaimed: Reading[Mapping[str, Count]]
    frame_jobs: Reading[Mapping[str, Count]]
    stale: Reading[Frames]
    unswept: Reading[Frames]
    owed: Reading[Frames]
    given_up: Reading[Frames]
    consent_blocked: Reading[Frames]
    schema: Reading[Schema]


@dataclass(frozen=True)
class QueuesView:
    """What stands on the queues.

    Attributes:
        queues: the depth of each queue, by its name in the asset graph.
        dead_letters: the same of the dead-letter queues and of the undeliverable events.
    """

    queues: Mapping[str, Reading[QueueDepth]]
    dead_letters: Mapping[str, Reading[QueueDepth]]


class Watch:
    """Looks at what stands where; kept by whoever looks again and again.

    Args:
        settings: names queues, lease and tries.
        database: as the service role.
        grace_seconds: how long after its lease a job may wait for the sweep, in seconds.
    """

    def __init__(
        self, settings: Settings, database: Database, *, grace_seconds: int = GRACE_SECONDS
    ) -> None:
        self._settings = settings
        self._database = database
        self._grace = grace_seconds
        self._head: str | None = None
        self._sqs: SQSClient | None = None

    def database(self, *, seconds: float = LOOK_SECONDS) -> DatabaseView:
        """Read what stands in the database; no reading starts after `seconds`."""
        settings, read = self._settings, _Reader(self._database, seconds)
        tries, lease = (
            settings.matter_frame_job_max_tries,
            settings.matter_frame_job_lease_seconds,
        )
        return DatabaseView(
            schema=read(self._schema),
            lanes={lane.name: read(partial(backlog, lane=lane)) for lane in LANES},
            unclaimed=read(unclaimed_events),
            frame_jobs=read(standing.statuses),
            stale=read(lambda c: standing.stale(c, lease_seconds=lease)),
            unswept=read(lambda c: standing.stale(c, lease_seconds=lease + self._grace)),
            owed=read(lambda c: standing.owed(c, max_tries=tries)),
            given_up=read(lambda c: standing.given_up(c, max_tries=tries)),
            consent_blocked=read(standing.consent_blocked),
        )

    def oldest_pending(self, lane: Lane) -> Reading[Sequence[WaitingRow]]:
        """Name the first few pending rows of `lane`."""
        return _Reader(self._database, LOOK_SECONDS)(
            partial(oldest_pending, lane=lane, limit=MAX_NAMED)
        )

    def first_parked(self, lane: Lane) -> Reading[Sequence[WaitingRow]]:
        """Name the first few parked rows of `lane`."""
        return _Reader(self._database, LOOK_SECONDS)(
            partial(first_parked, lane=lane, limit=MAX_NAMED)
        )

    def queues(self) -> QueuesView:
        """Read the depth of every queue, several at once; a call ends within 17 s."""
        settings = self._settings
        # Making a client costs more than all the calls; one serves every thread.
        at_once = 2 * len(QUEUES) + 1
        sqs = self._sqs = self._sqs or client("sqs", settings, connections=at_once)
        looks: dict[str, Callable[[], QueueDepth]]
        looks = {queue.name: partial(_depth, settings, queue, sqs) for queue in QUEUES}
        dead: dict[str, Callable[[], QueueDepth]]
        dead = {queue.dead_letters: partial(_dead, settings, queue, sqs) for queue in QUEUES}
        dead[UNDELIVERABLE] = partial(_undeliverable, settings, sqs)
        with ThreadPoolExecutor(max_workers=at_once) as threads:
            taken = dict(
                zip(
                    (*looks, *dead),
                    threads.map(take, (*looks.values(), *dead.values())),
                    strict=True,
                )
            )
        return QueuesView(
            queues={name: taken[name] for name in looks},
            dead_letters={name: taken[name] for name in dead},
        )

    def _schema(self, connection: Connection) -> Schema:
        # Not above: Alembic is a tenth of all that the code location would import, for this look.
        from pramaan_pipelines.store import migrate  # noqa: PLC0415

        if self._head is None:
            self._head = migrate.head()
        return Schema(migrate.revision_of(connection), self._head)


def _depth(settings: Settings, queue: WatchedQueue, sqs: "SQSClient") -> QueueDepth:
    return consumer_of(settings, queue, sqs).depth()


def _dead(settings: Settings, queue: WatchedQueue, sqs: "SQSClient") -> QueueDepth:
    return consumer_of(settings, queue, sqs).dead_letter_depth()


def _undeliverable(settings: Settings, sqs: "SQSClient") -> QueueDepth:
    return undeliverable_events(settings, sqs).depth()


class _Reader:
    """Takes readings from the database until it is gone or the time is up."""

    def __init__(self, database: Database, seconds: float) -> None:
        self._database = database
        self._seconds = seconds
        self._deadline = monotonic() + seconds
        self._gone: str | None = None

    def __call__(self, look: Callable[[Connection], T]) -> Reading[T]:
        if self._gone is None and monotonic() >= self._deadline:
            self._gone = f"not read: the look had {self._seconds:.0f} s, and they were over"
        if self._gone is not None:
            return Reading(problem=self._gone)

        def in_scope() -> T:
            try:
                with self._database.staff() as connection:
                    by_index(connection)
                    return look(connection)
            except DatabaseUnavailableError as error:
                self._gone = str(error)
                raise

        return take(in_scope)
