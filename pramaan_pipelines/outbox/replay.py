"""Sending a day of a lane again: what of it was not sent and, asked for by name, what was.

Promises: a replay is a relay run that takes other rows, so each batch is bounded, sent and marked
as any. How far it has come is committed with each batch: one that dies goes on where it stopped,
and repeats one batch at the most. Unsent rows are found by being unsent, however late they were
committed. Replay and live relay never wait for each other.
Never: sends a row of before unless `also_sent` says so, or a parked one, which has its redrive;
changes a row of before: its first dispatched_at stays, and pruning counts from that.

A row belongs to the day of its created_at, in UTC. "Sent" means before the replay began, so that
what a relay sends meanwhile is not sent twice. A second replay of a day goes on with one that is
unfinished; after one that is finished, or that nobody has touched for a day, it begins anew.
"""

from dataclasses import dataclass
from datetime import date, datetime
from time import monotonic, sleep
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from pramaan_pipelines.contracts.text import safe_text
from pramaan_pipelines.errors import UnfinishedError
from pramaan_pipelines.messaging.publisher import Publisher
from pramaan_pipelines.outbox.lanes import Lane
from pramaan_pipelines.outbox.relay import RelayRun, run_relay
from pramaan_pipelines.outbox.replay_selection import DAY, DayReplay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry

DEFAULT_BUDGET_SECONDS: Final = 1800.0
BUSY_PAUSE_SECONDS: Final = 0.5
BEGIN_TRIES: Final = 5

# The pending and the sent by their day's index, the parked by {table}_parked_idx.
COUNTS: Final = f"""
    SELECT
        (SELECT count(*) FROM {{table}}
         WHERE dispatched_at IS NULL AND parked_at IS NULL AND {DAY}),
        (SELECT count(*) FROM {{table}} WHERE parked_at IS NOT NULL AND {DAY}),
        CASE WHEN :also_sent THEN
            (SELECT count(*) FROM {{table}} WHERE dispatched_at IS NOT NULL AND {DAY}) END
"""  # noqa: S608 - of constants

# All three read outbox_replays_open_key (lane, day, also_sent) WHERE status = 'open'.
ABANDON: Final = text("""
    UPDATE ops.outbox_replays SET status = 'abandoned', updated_at = now()
    WHERE lane = :lane AND day = :day AND also_sent = :also_sent AND status = 'open'
      AND (:restart OR updated_at < now() - interval '24 hours')
""")
BEGIN: Final = text("""
    INSERT INTO ops.outbox_replays (lane, day, also_sent) VALUES (:lane, :day, :also_sent)
    ON CONFLICT (lane, day, also_sent) WHERE status = 'open' DO NOTHING
""")
FIND: Final = text("""
    SELECT id, started_at, sent, again, failed, cardinality(owed) FROM ops.outbox_replays
    WHERE lane = :lane AND day = :day AND also_sent = :also_sent AND status = 'open'
      AND updated_at >= now() - interval '24 hours'
""")


@dataclass(frozen=True)
class DayCounts:
    """What stands in a lane of one day.

    Attributes:
        pending: rows that were not sent.
        parked: rows that no replay takes; they have their redrive.
        sent: rows that were sent and are not pruned; None where nobody asked for them.
    """

    pending: int
    parked: int
    sent: int | None

    def __str__(self) -> str:
        sent = "" if self.sent is None else f", sent {self.sent}"
        return f"not sent {self.pending}, parked {self.parked}{sent}"


@dataclass(frozen=True)
class Unfinished:
    """A replay that was begun and is not finished.

    Attributes:
        replay_id: its row in `ops.outbox_replays`.
        started_at: when it began, on the database's clock.
        sent: rows it sent for the first time, so far.
        again: rows of before that it sent again, so far.
        given_up: rows of before that it was refused.
        owed: rows of before that it passed by, to be tried once more.
    """

    replay_id: UUID
    started_at: datetime
    sent: int
    again: int
    given_up: int
    owed: int

    def __str__(self) -> str:
        """Return when it began, and how far it has come."""
        return f"a replay begun at {self.started_at:%Y-%m-%d %H:%M:%S%z}, {self.again} sent again"


@dataclass(frozen=True)
class ReplayRun:
    """What one run of a replay came to.

    Attributes:
        relay: its sums, as a relay's; `again` of its `sent` had been sent before.
        finished: whether the replay is: not after an outage, or where the time ran out.
        replaced: somebody began it anew while this run was at it.
        resumed: what it went on with; None where it began anew.
        given_up: rows of before that the destination refused by name twice, or for good.
        left: what stands in the day afterwards.
    """

    relay: RelayRun
    finished: bool
    replaced: bool
    resumed: Unfinished | None
    given_up: int
    left: DayCounts

    def __str__(self) -> str:
        sent, again = self.relay.sent - self.relay.again, self.relay.again
        out = f" ({safe_text(self.relay.outage)})" if self.relay.outage else ""
        return (
            f"sent {sent}, sent again {again}, refused {self.given_up}, "
            f"stopped: {self.relay.stopped_reason}{out}; left: {self.left}"
        )


def look(
    database: Database, lane: Lane, day: date, *, also_sent: bool
) -> tuple[DayCounts, Unfinished | None]:
    """Return what a replay of `day` would find, and which one it would go on with; change nothing.

    Args:
        database: as the service role.
        lane: whose rows.
        day: of their created_at, in UTC.
        also_sent: count what was sent too, and look for a replay that sends it again.
    """
    with database.staff() as connection:
        counts = _counts(connection, lane, day, also_sent=also_sent)
        return counts, _find(connection, lane, day, also_sent=also_sent)


def run_replay(  # noqa: PLR0913
    lane: Lane,
    day: date,
    *,
    database: Database,
    publisher: Publisher,
    telemetry: Telemetry,
    limits: DrainLimits,
    also_sent: bool = False,
    restart: bool = False,
    budget_seconds: float = DEFAULT_BUDGET_SECONDS,
) -> ReplayRun:
    """Send what of `day` was not sent; with `also_sent`, and only then, what was as well.

    Args:
        lane: whose rows.
        day: of their created_at, in UTC.
        database: as the service role.
        publisher: the lane's destination.
        telemetry: where each drain's span and duration go.
        limits: the bounds of each drain.
        also_sent: send again what was sent before, with its event_id and trace as they are.
        restart: give up an unfinished replay of the same day and switch, and begin anew.
        budget_seconds: no drain starts after these; the next run goes on from there.
    """
    replay, resumed = _begin(database, lane, day, also_sent=also_sent, restart=restart)
    selection = DayReplay(replay.replay_id, day, also_sent)
    run, deadline = RelayRun(), monotonic() + budget_seconds
    while True:
        run_relay(
            lane,
            database=database,
            publisher=publisher,
            telemetry=telemetry,
            limits=limits,
            budget_seconds=deadline - monotonic(),
            selection=selection,
            run=run,
        )
        # Another run is at the same replay: the two share it, batch by batch.
        if not selection.busy or monotonic() > deadline:
            break
        sleep(BUSY_PAUSE_SECONDS)
    run.seconds = monotonic() - deadline + budget_seconds
    with database.staff() as connection:
        left = _counts(connection, lane, day, also_sent=False)
    return ReplayRun(
        run,
        finished=selection.finished,
        replaced=selection.replaced,
        resumed=replay if resumed else None,
        given_up=selection.given_up,
        left=left,
    )


def _begin(
    database: Database, lane: Lane, day: date, *, also_sent: bool, restart: bool
) -> tuple[Unfinished, bool]:
    """Return the replay to work on, and whether it was there; one transaction, before any batch."""
    named = {"lane": lane.name, "day": day, "also_sent": also_sent}
    for _ in range(BEGIN_TRIES):
        with database.staff() as connection:
            connection.execute(ABANDON, {**named, "restart": restart})
            begun = connection.execute(BEGIN, named).rowcount == 1
            # Gone already where another run has finished it since: then this one begins anew.
            if found := _find(connection, lane, day, also_sent=also_sent):
                return found, not begun
    raise UnfinishedError(
        f"other runs began and finished the replay of {day} all the time: launch it again"
    )


def _find(connection: Connection, lane: Lane, day: date, *, also_sent: bool) -> Unfinished | None:
    named = {"lane": lane.name, "day": day, "also_sent": also_sent}
    found = connection.execute(FIND, named).one_or_none()
    return None if found is None else Unfinished(*found)


def _counts(connection: Connection, lane: Lane, day: date, *, also_sent: bool) -> DayCounts:
    query = text(COUNTS.format(table=lane.outbox.table))
    given = {"event_type": lane.event_type, "day": day, "also_sent": also_sent}
    return DayCounts(*connection.execute(query, given).one())
