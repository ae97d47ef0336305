"""How the frame jobs stand: by status, and those that wait for somebody.

Promises: what needs an answer is found through partial indexes and counted to a limit; a matter
that is gone waits for nobody.
Never: shows more of a job than its ids and times, or changes one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from pramaan_pipelines.store.counting import COUNT_LIMIT, Count, by_index
from pramaan_pipelines.store.database import enter_firm, require_staff

MAX_NAMED: Final = 20
MAX_FIRMS: Final = 100
"""Firms whose waiting matters are looked up; a matter is visible under its own firm only."""

# The first rows of the table, whichever they are: nearly all of it is `idle`.
STATUSES: Final = text("""
    SELECT run_status, count(*) FROM (
        SELECT run_status FROM ops.matter_frame_jobs LIMIT :limit
    ) AS first GROUP BY run_status
""")

# matter_frame_jobs_running_idx (claimed_at).
RUNNING: Final = "run_status = 'running'"
STALE: Final = (
    "run_status = 'running' "
    "AND coalesce(claimed_at, '-infinity') < now() - make_interval(secs => :lease)"
)
# matter_frame_jobs_owed_idx (firm_id, updated_at), whose predicate comes first in each.
_OWED_INDEX: Final = "run_status <> 'running' AND (rebuild_needed OR run_status = 'failed')"
FAILED: Final = f"{_OWED_INDEX} AND run_status = 'failed'"
OWED: Final = f"{_OWED_INDEX} AND (rebuild_needed OR failed_tries <= :max_tries)"
GIVEN_UP: Final = f"{_OWED_INDEX} AND NOT rebuild_needed AND failed_tries > :max_tries"
# matter_frame_jobs_blocked_idx (firm_id, last_skip_at), whose predicate this is, word for word.
# The skip was the last thing that happened to the matter: a claim since then has ended the wait.
BLOCKED: Final = (
    "run_status <> 'running' AND last_skip_reason = 'consent_blocked' "
    "AND last_skip_at > coalesce(claimed_at, '-infinity')"
)

FIND: Final = """
    SELECT firm_id, matter_id, {since} AS since FROM ops.matter_frame_jobs
    WHERE {which} LIMIT :limit
"""
# One index probe a firm, however many rows it has.
FIRMS: Final = """
    WITH RECURSIVE firms AS (
        (SELECT firm_id FROM ops.matter_frame_jobs WHERE {which} ORDER BY firm_id LIMIT 1)
        UNION ALL
        SELECT (SELECT job.firm_id FROM ops.matter_frame_jobs AS job
                WHERE {which} AND job.firm_id > firms.firm_id ORDER BY job.firm_id LIMIT 1)
        FROM firms WHERE firms.firm_id IS NOT NULL
    )
    SELECT firm_id FROM firms WHERE firm_id IS NOT NULL LIMIT :firms
"""
# Those that wait first, then their matters: a firm may have a million of these.
FIND_PRESENT: Final = """
    WITH waiting AS MATERIALIZED (
        SELECT firm_id, matter_id, {since} AS since FROM ops.matter_frame_jobs
        WHERE firm_id = :firm_id AND {which}
    )
    SELECT firm_id, matter_id, since FROM waiting
    WHERE EXISTS (SELECT 1 FROM public.matters AS matter
                  WHERE matter.id = waiting.matter_id AND matter.firm_id = waiting.firm_id)
    LIMIT :limit
"""
SUMMED: Final = "SELECT count(*), min(since) FROM ({found}) AS found"
NAMED: Final = "SELECT * FROM ({found}) AS found ORDER BY since LIMIT :named"


@dataclass(frozen=True)
class NamedFrame:
    """A frame job that an operator may look for.

    Attributes:
        firm_id: the matter's firm.
        matter_id: the matter.
        since: when it was claimed, failed or skipped; None where the row does not say.
    """

    firm_id: UUID
    matter_id: UUID
    since: datetime | None


@dataclass(frozen=True)
class Frames:
    """Frame jobs of one kind.

    Attributes:
        count: how many.
        oldest: since when the oldest of those counted stands so; None when there is none.
        named: the oldest few of those counted.
    """

    count: Count
    oldest: datetime | None
    named: tuple[NamedFrame, ...]


def statuses(connection: Connection, limit: int = COUNT_LIMIT) -> Mapping[str, Count]:
    """Count the frame jobs by run_status, as staff.

    `running` and `failed` are counted by their indexes; the others among the first `limit` rows of
    the table, and said to be at least that where there are more.
    """
    require_staff(connection)
    by_index(connection)
    rows = connection.execute(STATUSES, {"limit": limit + 1}).all()
    cut = sum(number for _, number in rows) > limit
    counts = {status: Count(number, more=cut) for status, number in rows}
    for status, which in (("running", RUNNING), ("failed", FAILED)):
        counts[status] = _find(connection, which, "updated_at", {}, limit).count
    return dict(sorted(counts.items()))


def stale(connection: Connection, *, lease_seconds: int, limit: int = COUNT_LIMIT) -> Frames:
    """Find the running jobs whose lease is over, as staff: what the sweep has not failed yet."""
    return _find(connection, STALE, "claimed_at", {"lease": lease_seconds}, limit)


def owed(connection: Connection, *, max_tries: int, limit: int = COUNT_LIMIT) -> Frames:
    """Find the jobs that healing takes up once their firm consents, as staff."""
    return _find(connection, OWED, "updated_at", {"max_tries": max_tries}, limit)


def given_up(connection: Connection, *, max_tries: int, limit: int = COUNT_LIMIT) -> Frames:
    """Find the jobs that stay failed until a person looks; the scope is a firm's afterwards."""
    return _find_present(connection, GIVEN_UP, "updated_at", {"max_tries": max_tries}, limit)


def consent_blocked(connection: Connection, limit: int = COUNT_LIMIT) -> Frames:
    """Find the matters that stopped at consent; the scope is a firm's afterwards."""
    return _find_present(connection, BLOCKED, "last_skip_at", {}, limit)


def _find(
    connection: Connection, which: str, since: str, asked: Mapping[str, object], limit: int
) -> Frames:
    require_staff(connection)
    by_index(connection)
    return _sum_up(connection, FIND.format(which=which, since=since), asked, limit)


def _find_present(
    connection: Connection, which: str, since: str, asked: Mapping[str, object], limit: int
) -> Frames:
    require_staff(connection)
    by_index(connection)
    firms = list(
        connection.scalars(text(FIRMS.format(which=which)), {**asked, "firms": MAX_FIRMS + 1})
    )
    found = Frames(Count(0, more=len(firms) > MAX_FIRMS), None, ())
    query = FIND_PRESENT.format(which=which, since=since)
    for firm_id in firms[:MAX_FIRMS]:
        enter_firm(connection, firm_id)
        by_index(connection)
        left = limit - found.count.number
        found = _together(found, _sum_up(connection, query, {**asked, "firm_id": firm_id}, left))
    return found


def _sum_up(connection: Connection, query: str, asked: Mapping[str, object], limit: int) -> Frames:
    asked = {**asked, "limit": limit + 1}
    number, oldest = connection.execute(text(SUMMED.format(found=query)), asked).one()
    if not number:
        return Frames(Count(0), None, ())
    rows = connection.execute(text(NAMED.format(found=query)), {**asked, "named": MAX_NAMED})
    return Frames(Count.of(number, limit), oldest, tuple(NamedFrame(*row) for row in rows))


def _together(one: Frames, other: Frames) -> Frames:
    named = sorted((*one.named, *other.named), key=lambda frame: str(frame.since))
    oldest = min((time for time in (one.oldest, other.oldest) if time), default=None)
    return Frames(one.count + other.count, oldest, tuple(named[:MAX_NAMED]))
