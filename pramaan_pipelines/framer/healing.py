"""What is owed: frame jobs whose worker died or that lost an event, of firms that consent now.

Promises: level-triggered; it reads what the job table says and nothing else, so that whatever was
missed is found at the next look; a job is healed a bounded number of times, then a person sees it.
Never: claims. A healing run passes the same gates as a message, from coherence on.
"""

import random
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from sqlalchemy import text

from pramaan_pipelines.framer import standing
from pramaan_pipelines.framer.claims import DEFAULT_MAX_TRIES
from pramaan_pipelines.framer.gates import load_egress_consent
from pramaan_pipelines.framer.standing import Frames
from pramaan_pipelines.store.database import Database

# Both read matter_frame_jobs_owed_idx (firm_id, updated_at)
# WHERE run_status <> 'running' AND (rebuild_needed OR run_status = 'failed').
FIRMS_OWED: Final = text("""
    SELECT DISTINCT firm_id FROM ops.matter_frame_jobs
    WHERE run_status <> 'running' AND (rebuild_needed OR run_status = 'failed')
      AND (rebuild_needed OR failed_tries <= :max_tries)
""")

# A matter that is gone is owed nothing: its run would be refused at every look.
JOBS_OWED: Final = text("""
    SELECT job.firm_id, job.matter_id, job.pending_event_id FROM ops.matter_frame_jobs AS job
    WHERE job.firm_id = :firm_id AND job.run_status <> 'running'
      AND (job.rebuild_needed OR job.run_status = 'failed')
      AND (job.rebuild_needed OR job.failed_tries <= :max_tries)
      AND EXISTS (SELECT 1 FROM public.matters AS matter
                  WHERE matter.id = job.matter_id AND matter.firm_id = job.firm_id)
    ORDER BY job.updated_at
    LIMIT :window
""")
WINDOW: Final = 100
"""Of each firm's oldest so many, some by chance: those whose runs die before their claim, however
often, hold up no other."""

REQUEST: Final = text("""
    UPDATE ops.matter_frame_jobs SET rebuild_needed = true, failed_tries = 0, updated_at = now()
    WHERE firm_id = :firm_id AND matter_id = :matter_id
      AND EXISTS (SELECT 1 FROM public.matters WHERE id = :matter_id AND firm_id = :firm_id)
    RETURNING id
""")

PRESENT: Final = text("""
    SELECT 1 FROM ops.matter_frame_jobs
    WHERE firm_id = :firm_id AND matter_id = :matter_id
      AND EXISTS (SELECT 1 FROM public.matters WHERE id = :matter_id AND firm_id = :firm_id)
""")


@dataclass(frozen=True)
class OwedFrame:
    """A matter whose frame is owed.

    Attributes:
        firm_id: the matter's firm.
        matter_id: the matter.
        event_id: of the event that the job remembers as pending; None where a worker died.
    """

    firm_id: UUID
    matter_id: UUID
    event_id: UUID | None = field(default=None, compare=False)


class FrameHealing:
    """Finds the frame jobs to heal, and those that healing has given up.

    Args:
        database: as the service role.
        max_tries: MATTER_FRAME_JOB_MAX_TRIES, the same that the claims have.
    """

    def __init__(self, database: Database, *, max_tries: int = DEFAULT_MAX_TRIES) -> None:
        self._database = database
        self._max_tries = max_tries

    def owed(self, limit: int) -> list[OwedFrame]:
        """Return up to `limit` frames that are owed, of firms that consent now.

        Firms take turns by chance, and so do the frames of a firm, so that none holds up another.
        """
        with self._database.staff() as connection:
            firms = list(connection.scalars(FIRMS_OWED, {"max_tries": self._max_tries}))
        random.shuffle(firms)
        owed: list[OwedFrame] = []
        for firm_id in firms:
            if len(owed) >= limit:
                break
            with self._database.firm(firm_id) as connection:
                if not load_egress_consent(connection, firm_id=firm_id):
                    continue
                left = limit - len(owed)
                found = connection.execute(
                    JOBS_OWED,
                    {
                        "firm_id": firm_id,
                        "max_tries": self._max_tries,
                        "window": max(left, WINDOW),
                    },
                )
                rows = [OwedFrame(*row) for row in found]
                owed += random.sample(rows, min(left, len(rows)))
        return owed

    def given_up(self) -> Frames:
        """Find the jobs that stay failed until a person looks, of matters that are still there."""
        with self._database.staff() as connection:
            return standing.given_up(connection, max_tries=self._max_tries)

    def request_rebuild(self, firm_id: UUID, matter_id: UUID, *, dry_run: bool = False) -> bool:
        """Mark a matter's frame as owed, with its tries forgotten, as a person may ask.

        Args:
            firm_id: the matter's firm.
            matter_id: the matter.
            dry_run: only tell whether there is such a job.

        Returns:
            False where the firm has no frame job for the matter, or the matter is gone.
        """
        with self._database.firm(firm_id) as connection:
            query = PRESENT if dry_run else REQUEST
            found = connection.execute(query, {"firm_id": firm_id, "matter_id": matter_id})
            return found.first() is not None
