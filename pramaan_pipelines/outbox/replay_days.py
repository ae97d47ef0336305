"""Days of a lane, one after another: what `pramaan replay` does, without Dagster.

Promises: says of each day what it came to, or in a dry run what it would; the first day that is not
finished ends it, and the same call goes on from there.
Never: sends to a destination that it has not looked at.
"""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Final

from pramaan_pipelines.errors import SettingsError, UnfinishedError
from pramaan_pipelines.outbox.lanes import Lane
from pramaan_pipelines.outbox.replay import look, run_replay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry

MAX_DAYS: Final = 366


def each_day(first: date, last: date | None = None) -> list[date]:
    """Return the days from `first` to `last`, both included; without `last`, the one day.

    Raises:
        SettingsError: there is none, or they are more than 366.
    """
    last = last or first
    count = (last - first).days + 1
    if not 1 <= count <= MAX_DAYS:
        raise SettingsError(f"{first} to {last} are {count} days: give from 1 to {MAX_DAYS}")
    return [first + timedelta(days=number) for number in range(count)]


def look_at_days(
    database: Database, lane: Lane, days: Sequence[date], *, also_sent: bool
) -> Iterator[str]:
    """Say of each day what a replay would find; change nothing."""
    for day in days:
        found, unfinished = look(database, lane, day, also_sent=also_sent)
        yield f"{day}  {found}" + (f"; would go on with {unfinished}" if unfinished else "")
    yield "Nothing was sent; do it with --go."


def replay_days(
    database: Database, lane: Lane, days: Sequence[date], *, also_sent: bool, restart: bool
) -> Iterator[str]:
    """Replay each day with the environment's settings; say what it came to.

    Raises:
        DestinationError: the lane's destination is not there, or not to be reached.
        UnfinishedError: a day was not finished; those after it were not begun.
    """
    settings = Settings.load()
    publisher = lane.publisher(settings)
    publisher.verify()
    for day in days:
        run = run_replay(
            lane,
            day,
            database=database,
            publisher=publisher,
            telemetry=Telemetry.current(settings.pramaan_environment),
            limits=DrainLimits(),
            also_sent=also_sent,
            restart=restart,
        )
        yield f"{day}  {run}"
        if not run.finished:
            raise UnfinishedError(
                f"{day} is not finished: the same command, without --restart, goes on from there"
            )
