"""The stale sweep: the only one that fails a dead worker's frame job.

Promises: a job is failed only while it is running, on the generation that was seen, with its lease
over, and together with that generation's agent run and no other (H6); where the table is absent it
does nothing and says so.
Never: fails a job that finished or was claimed anew in the meantime; touches an agent run as staff.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import text

from pramaan_pipelines.store.database import Database, enter_firm

TABLE_PRESENT: Final = text("SELECT to_regclass('ops.matter_frame_jobs') IS NOT NULL")

# Reads matter_frame_jobs_running_idx (claimed_at) WHERE run_status = 'running'.
STALE: Final = text("""
    SELECT firm_id, matter_id, claimed_generation FROM ops.matter_frame_jobs
    WHERE run_status = 'running'
      AND coalesce(claimed_at, '-infinity') < now() - make_interval(secs => :lease)
    ORDER BY claimed_at
    LIMIT :limit
""")

# A row that somebody holds is passed over: one stuck session must not hold up every firm's sweep.
FAIL_JOB: Final = text("""
    UPDATE ops.matter_frame_jobs SET
        run_status = 'failed', failed_tries = failed_tries + 1, updated_at = now()
    WHERE firm_id = :firm_id AND matter_id = :matter_id
      AND claimed_generation = :generation AND run_status = 'running'
      AND coalesce(claimed_at, '-infinity') < now() - make_interval(secs => :lease)
      AND id = (SELECT id FROM ops.matter_frame_jobs
                WHERE firm_id = :firm_id AND matter_id = :matter_id
                FOR UPDATE SKIP LOCKED)
    RETURNING id
""")

FAIL_RUN: Final = text("""
    UPDATE agents.agent_run SET status = 'failed', finished_at = now()
    WHERE firm_id = :firm_id AND matter_id = :matter_id
      AND claimed_generation = :generation AND status = 'running'
""")


@dataclass(frozen=True)
class StaleJob:
    """A job whose lease is over, on the generation that was seen."""

    firm_id: UUID
    matter_id: UUID
    generation: int


@dataclass(frozen=True)
class SweepResult:
    """What a sweep came to.

    Attributes:
        table_present: False where there is no table to sweep.
        seen: jobs whose lease was over.
        failed: those of them that this sweep failed; the others moved on by themselves.
    """

    table_present: bool
    seen: int = 0
    failed: int = 0


class StaleFrameJobSweep:
    """Fails the jobs of workers that died.

    Args:
        database: as the service role.
        lease_seconds: MATTER_FRAME_JOB_LEASE_SECONDS, the same that claims are made with.
    """

    def __init__(self, database: Database, *, lease_seconds: int) -> None:
        self._database = database
        self._lease = lease_seconds

    def stale(self, limit: int = 500) -> list[StaleJob] | None:
        """Return the jobs whose lease is over, oldest first; None where the table is absent."""
        with self._database.staff() as connection:
            if not connection.scalar(TABLE_PRESENT):
                return None
            rows = connection.execute(STALE, {"lease": self._lease, "limit": limit})
            return [StaleJob(*row) for row in rows]

    def sweep(self, limit: int = 500) -> SweepResult:
        """Fail what is stale: one short transaction a job."""
        stale = self.stale(limit)
        if stale is None:
            return SweepResult(table_present=False)
        return SweepResult(
            table_present=True, seen=len(stale), failed=sum(self._fail(job) for job in stale)
        )

    def _fail(self, job: StaleJob) -> bool:
        key = {
            "firm_id": job.firm_id,
            "matter_id": job.matter_id,
            "generation": job.generation,
        }
        with self._database.staff() as connection:
            if connection.execute(FAIL_JOB, {**key, "lease": self._lease}).first() is None:
                return False
            # Staff may not touch an agent run: what it found is changed under that row's own firm.
            enter_firm(connection, job.firm_id)
            connection.execute(FAIL_RUN, key)
            return True


def sweep_stale_matter_frame_jobs(database: Database, *, lease_seconds: int) -> SweepResult:
    """Run one sweep, as the scheduled job does."""
    return StaleFrameJobSweep(database, lease_seconds=lease_seconds).sweep()
