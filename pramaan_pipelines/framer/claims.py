"""The claim on a frame job: a lease with a generation, taken together with the agent's run row.

Promises: at most one live claim a matter; each claim is a new generation, and every later write
compares it, so that a zombie's write matches no row; the run row commits with the claim or not at
all; nothing here is written without consent.
Never: reshapes `ops.matter_frame_jobs`, whose columns, statuses and claim semantics other services
share; compares with any clock but the database's.

One row of the table, and who may move it (generation g, lease on the database's clock):

    (none) ──claim──▶ running g ──release, fenced on g──▶ idle
                         │  ▲
       sweep, lease over │  │ claim: not running, or lease over; g + 1
                         ▼  │
                       failed
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from pramaan_pipelines.contracts.invoke import FRAME_AGENT_KEY
from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError, Outcome, SkipReason
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.framer.gates import check_subject, is_handled, load_egress_consent
from pramaan_pipelines.store.database import TRIGGER_EVENT_INDEX, Database

DEFAULT_MAX_TRIES: Final = 3

# EB-16, EB-18: one statement. A conflicting row is locked whether or not the WHERE lets it through,
# so what is read after a lost claim is still true when this transaction writes (H1).
# https://www.postgresql.org/docs/current/sql-insert.html#SQL-ON-CONFLICT
CLAIM: Final = text("""
    INSERT INTO ops.matter_frame_jobs AS job
        (firm_id, matter_id, run_status, requested_generation, claimed_generation, claimed_at)
    VALUES (:firm_id, :matter_id, 'running', 1, 1, now())
    ON CONFLICT (firm_id, matter_id) DO UPDATE SET
        run_status = 'running',
        requested_generation = greatest(job.requested_generation, job.claimed_generation) + 1,
        claimed_generation = greatest(job.requested_generation, job.claimed_generation) + 1,
        claimed_at = now(),
        rebuild_needed = false,
        pending_event_id = NULL,
        failed_tries = 0,
        updated_at = now()
    WHERE job.run_status <> 'running'
       OR coalesce(job.claimed_at, '-infinity') < now() - make_interval(secs => :lease)
    RETURNING claimed_generation
""")

# H3: the need is repeated where it counts, so that of two healing runs one claims and the other
# finds nothing owed. H8: the tries go on counting; only a message starts them anew.
CLAIM_HEALING: Final = text("""
    WITH owed AS (
        SELECT id, pending_event_id FROM ops.matter_frame_jobs
        WHERE firm_id = :firm_id AND matter_id = :matter_id AND run_status <> 'running'
          AND (rebuild_needed OR (run_status = 'failed' AND failed_tries <= :max_tries))
        FOR UPDATE
    )
    UPDATE ops.matter_frame_jobs AS job SET
        run_status = 'running',
        requested_generation = greatest(job.requested_generation, job.claimed_generation) + 1,
        claimed_generation = greatest(job.requested_generation, job.claimed_generation) + 1,
        claimed_at = now(),
        rebuild_needed = false,
        pending_event_id = NULL,
        updated_at = now()
    FROM owed WHERE job.id = owed.id
    RETURNING job.claimed_generation, owed.pending_event_id
""")

INSERT_RUN: Final = text("""
    INSERT INTO agents.agent_run
        (id, firm_id, matter_id, agent_key, status, started_at, trigger_event_id,
         claimed_generation, traceparent, tracestate)
    VALUES (:run_id, :firm_id, :matter_id, :agent_key, 'running', now(), :event_id,
            :generation, :traceparent, :tracestate)
""")

# H7. Reads agent_run_firm_id_matter_id_generation_idx.
FAIL_SUPERSEDED: Final = text("""
    UPDATE agents.agent_run SET status = 'failed', finished_at = now()
    WHERE firm_id = :firm_id AND matter_id = :matter_id
      AND claimed_generation < :generation AND status = 'running'
""")

MARK_REBUILD: Final = text("""
    UPDATE ops.matter_frame_jobs SET
        rebuild_needed = true, pending_event_id = :event_id, updated_at = now()
    WHERE firm_id = :firm_id AND matter_id = :matter_id
""")

# H5: whatever the job is doing, it goes on doing it.
RECORD_SKIP: Final = text("""
    INSERT INTO ops.matter_frame_jobs AS job (firm_id, matter_id, last_skip_reason, last_skip_at)
    VALUES (:firm_id, :matter_id, :reason, now())
    ON CONFLICT (firm_id, matter_id) DO UPDATE SET
        last_skip_reason = excluded.last_skip_reason,
        last_skip_at = excluded.last_skip_at,
        updated_at = now()
""")

HOLDS: Final = text("""
    SELECT 1 FROM ops.matter_frame_jobs
    WHERE firm_id = :firm_id AND matter_id = :matter_id
      AND claimed_generation = :generation AND run_status = 'running'
""")

RELEASE: Final = text("""
    UPDATE ops.matter_frame_jobs SET
        run_status = 'idle', failed_tries = 0, updated_at = now()
    WHERE firm_id = :firm_id AND matter_id = :matter_id
      AND claimed_generation = :generation AND run_status = 'running'
    RETURNING id
""")

# Consent went away between the claim and the invoke: the frame is still owed when it comes back.
WITHDRAW: Final = text("""
    UPDATE ops.matter_frame_jobs SET
        run_status = 'idle', rebuild_needed = true,
        last_skip_reason = :reason, last_skip_at = now(), updated_at = now()
    WHERE firm_id = :firm_id AND matter_id = :matter_id
      AND claimed_generation = :generation AND run_status = 'running'
    RETURNING id
""")

# The matter went away between the claim and the invoke: nothing is owed any more.
ABANDON: Final = text("""
    UPDATE ops.matter_frame_jobs SET
        run_status = 'idle', rebuild_needed = false, updated_at = now()
    WHERE firm_id = :firm_id AND matter_id = :matter_id
      AND claimed_generation = :generation AND run_status = 'running'
    RETURNING id
""")

# H9: only ever after a compare-and-set of the job matched, in its transaction.
END_RUN: Final = text("""
    UPDATE agents.agent_run SET status = :status, finished_at = now()
    WHERE id = :run_id AND firm_id = :firm_id AND claimed_generation = :generation
      AND status = 'running'
""")


@dataclass(frozen=True)
class FrameRequest:
    """Whose frame is asked for, and by which event; None is a healing run, which has none (H2)."""

    firm_id: UUID
    matter_id: UUID
    event_id: UUID | None


@dataclass(frozen=True)
class Claim:
    """A claim that was won: the generation fences every later write of its holder (H10)."""

    firm_id: UUID
    matter_id: UUID
    agent_run_id: UUID
    generation: int


class Fence(StrEnum):
    """What the look right before the invoke found."""

    HELD = "held"
    LOST = "lost"
    CONSENT_WITHDRAWN = "consent_withdrawn"


class _ConsentGoneError(Exception):
    """Rolls a claim back; consent is read again inside its transaction (H4)."""


class _HandledError(Exception):
    """Rolls a skip back; the event has its run row (H5)."""


class FrameJobClaims:
    """Claims, releases and marks on `ops.matter_frame_jobs`, each in one transaction of its own.

    Args:
        database: as the service role.
        lease_seconds: how long a claim holds without a sign of life
            (MATTER_FRAME_JOB_LEASE_SECONDS; the sweep reads the same setting).
        max_tries: failures of a matter's frame after which healing leaves it to a person
            (MATTER_FRAME_JOB_MAX_TRIES).
    """

    def __init__(
        self, database: Database, *, lease_seconds: int, max_tries: int = DEFAULT_MAX_TRIES
    ) -> None:
        self._database = database
        self._lease = lease_seconds
        self._max_tries = max_tries

    def claim(self, request: FrameRequest, trace: TraceContext) -> Claim | Outcome:
        """Gate 6: win the job and write the run row, or say why not; committed either way.

        Args:
            request: whose frame, by which event; without one it is a healing run's claim.
            trace: the context that the run row keeps and the agent continues.

        Returns:
            The claim; or DUPLICATE, CLAIM_LOST (rebuild_needed is set, but by a healing run, which
            marks nothing), or CONSENT_BLOCKED.

        Raises:
            EnvelopeRefusedError: the matter is no longer visible under the firm.
        """
        try:
            with self._database.firm(request.firm_id) as connection:
                return self._claim(connection, request, trace)
        except _ConsentGoneError:
            return self.record_skip(request, SkipReason.CONSENT_BLOCKED)
        except IntegrityError as error:
            # H11: the claim went with the transaction. By constraint, never by message text.
            if _constraint(error) == TRIGGER_EVENT_INDEX:
                return Outcome.DUPLICATE
            raise

    def _claim(
        self, connection: Connection, request: FrameRequest, trace: TraceContext
    ) -> Claim | Outcome:
        job = {"firm_id": request.firm_id, "matter_id": request.matter_id}
        if request.event_id is None:
            won = connection.execute(CLAIM_HEALING, {**job, "max_tries": self._max_tries}).first()
            if won is None:
                return Outcome.CLAIM_LOST
            generation, event_id = won[0], _unhandled(connection, request.firm_id, won[1])
        else:
            generation = connection.scalar(CLAIM, {**job, "lease": self._lease})
            if generation is None:
                return self._lost(connection, request)
            event_id = request.event_id
        check_subject(connection, **job)
        if not load_egress_consent(connection, firm_id=request.firm_id):
            raise _ConsentGoneError
        connection.execute(FAIL_SUPERSEDED, {**job, "generation": generation})
        run_id = uuid4()
        connection.execute(
            INSERT_RUN,
            {
                **job,
                "run_id": run_id,
                "agent_key": FRAME_AGENT_KEY,
                "event_id": event_id,
                "generation": generation,
                **trace._asdict(),
            },
        )
        return Claim(request.firm_id, request.matter_id, run_id, generation)

    def _lost(self, connection: Connection, request: FrameRequest) -> Outcome:
        # H1: the holder may be this very event, seen before its run row was committed.
        if _unhandled(connection, request.firm_id, request.event_id) is None:
            return Outcome.DUPLICATE
        self.mark_rebuild_needed(connection, request)
        return Outcome.CLAIM_LOST

    def mark_rebuild_needed(self, connection: Connection, request: FrameRequest) -> None:
        """Remember that the matter needs a frame newer than the one being built (EB-16).

        Args:
            connection: the transaction of the lost claim, which holds the row's lock.
            request: whose frame; its event becomes the one that is pending (H2).
        """
        connection.execute(
            MARK_REBUILD,
            {
                "firm_id": request.firm_id,
                "matter_id": request.matter_id,
                "event_id": request.event_id,
            },
        )

    def record_skip(self, request: FrameRequest, reason: SkipReason) -> Outcome:
        """Write why no frame is built, unless this event has its run row already (H5).

        Returns:
            CONSENT_BLOCKED, or DUPLICATE where the run row exists.
        """
        try:
            with self._database.firm(request.firm_id) as connection:
                self._record_skip(connection, request, reason)
        except _HandledError:
            return Outcome.DUPLICATE
        return Outcome.CONSENT_BLOCKED

    def _record_skip(
        self, connection: Connection, request: FrameRequest, reason: SkipReason
    ) -> None:
        connection.execute(
            RECORD_SKIP,
            {"firm_id": request.firm_id, "matter_id": request.matter_id, "reason": reason},
        )
        # Only now, with the row locked, is the answer still true at the commit (as in H1).
        if (
            request.event_id is not None
            and _unhandled(connection, request.firm_id, request.event_id) is None
        ):
            raise _HandledError

    def fence(self, claim: Claim) -> Fence:
        """Look once more, right before the invoke, as the claim did (H4).

        The claim held, the matter visible, the consent given? Where the consent went away the claim
        is given back and its run row ended, with the frame still owed.

        Raises:
            EnvelopeRefusedError: the matter is no longer visible; the claim was given back and its
                run row ended.
        """
        key = _key(claim)
        with self._database.firm(claim.firm_id) as connection:
            gone = _subject_gone(connection, claim)
            if gone is not None:
                given_back = connection.execute(ABANDON, key).first() is not None
            elif load_egress_consent(connection, firm_id=claim.firm_id):
                held = connection.execute(HOLDS, key).first() is not None
                return Fence.HELD if held else Fence.LOST
            else:
                reason = {"reason": SkipReason.CONSENT_BLOCKED}
                given_back = connection.execute(WITHDRAW, {**key, **reason}).first() is not None
            if not given_back:
                return Fence.LOST
            self._end_run(connection, claim, "cancelled")
        if gone is not None:
            raise gone
        return Fence.CONSENT_WITHDRAWN

    def release(self, claim: Claim) -> bool:
        """Gate 8: give the job back and end its run row, if this claim still holds it.

        Returns:
            False where another generation holds it, or the sweep has failed it: nothing changed.
        """
        with self._database.firm(claim.firm_id) as connection:
            if connection.execute(RELEASE, _key(claim)).first() is None:
                return False
            self._end_run(connection, claim, "succeeded")
            return True

    def _end_run(self, connection: Connection, claim: Claim, status: str) -> None:
        connection.execute(
            END_RUN,
            {
                "run_id": claim.agent_run_id,
                "firm_id": claim.firm_id,
                "generation": claim.generation,
                "status": status,
            },
        )


def _key(claim: Claim) -> dict[str, UUID | int]:
    return {
        "firm_id": claim.firm_id,
        "matter_id": claim.matter_id,
        "generation": claim.generation,
    }


def _unhandled(connection: Connection, firm_id: UUID, event_id: UUID | None) -> UUID | None:
    """Return `event_id` unless it has its run row already."""
    if event_id is None or is_handled(connection, firm_id=firm_id, event_id=event_id):
        return None
    return event_id


def _subject_gone(connection: Connection, claim: Claim) -> EnvelopeRefusedError | None:
    try:
        check_subject(connection, firm_id=claim.firm_id, matter_id=claim.matter_id)
    except EnvelopeRefusedError as refused:
        return refused
    return None


def _constraint(error: IntegrityError) -> str | None:
    diagnostics = getattr(error.orig, "diag", None)
    return getattr(diagnostics, "constraint_name", None)
