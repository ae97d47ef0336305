"""What an agent that works on its own reports: that it is alive, and that it is done.

Promises: both are fenced on the generation that the agent run was claimed with (H10): the report of
an agent whose claim was taken over or swept changes nothing.
Never: compares with the job's current generation without that one.
"""

from typing import Final
from uuid import UUID

from sqlalchemy import text

from pramaan_pipelines.framer.claims import END_RUN, RELEASE
from pramaan_pipelines.store.database import Database

EXTEND: Final = text("""
    UPDATE ops.matter_frame_jobs AS job SET claimed_at = now(), updated_at = now()
    FROM agents.agent_run AS run
    WHERE run.id = :run_id AND run.firm_id = :firm_id AND run.status = 'running'
      AND job.firm_id = run.firm_id AND job.matter_id = run.matter_id
      AND job.claimed_generation = run.claimed_generation AND job.run_status = 'running'
    RETURNING job.id
""")

CLAIM_OF_RUN: Final = text("""
    SELECT matter_id, claimed_generation FROM agents.agent_run
    WHERE id = :run_id AND firm_id = :firm_id AND claimed_generation IS NOT NULL
""")

FAIL: Final = text("""
    UPDATE ops.matter_frame_jobs SET
        run_status = 'failed', failed_tries = failed_tries + 1, updated_at = now()
    WHERE firm_id = :firm_id AND matter_id = :matter_id
      AND claimed_generation = :generation AND run_status = 'running'
    RETURNING id
""")


def extend_frame_lease(database: Database, *, firm_id: UUID, agent_run_id: UUID) -> bool:
    """Say that the agent is alive; its lease begins anew.

    Args:
        database: as the service role.
        firm_id: the run's firm.
        agent_run_id: what the invoke payload named.

    Returns:
        False where the run no longer holds its job; the agent should stop.
    """
    with database.firm(firm_id) as connection:
        found = connection.execute(EXTEND, {"run_id": agent_run_id, "firm_id": firm_id})
        return found.first() is not None


def complete_frame(
    database: Database, *, firm_id: UUID, agent_run_id: UUID, succeeded: bool
) -> bool:
    """Say that the agent is done, and give its job back.

    Args:
        database: as the service role.
        firm_id: the run's firm.
        agent_run_id: what the invoke payload named.
        succeeded: False makes the job failed and counts a try; healing takes it up again.

    Returns:
        False where the run no longer holds its job, so that nothing changed (H9).
    """
    run = {"run_id": agent_run_id, "firm_id": firm_id}
    with database.firm(firm_id) as connection:
        claim = connection.execute(CLAIM_OF_RUN, run).first()
        if claim is None:
            return False
        key = {"firm_id": firm_id, "matter_id": claim[0], "generation": claim[1]}
        if connection.execute(RELEASE if succeeded else FAIL, key).first() is None:
            return False
        status = "succeeded" if succeeded else "failed"
        connection.execute(END_RUN, {**run, "generation": claim[1], "status": status})
        return True
