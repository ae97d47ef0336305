"""The frame jobs and agent runs, in plain Python: what each gate and each late write comes to.

Promises: it predicts the answer of every call and what stands in both tables afterwards.
Never: asks the database.
"""

from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from pramaan_pipelines.contracts.outcomes import Outcome
from pramaan_pipelines.framer.claims import FrameRequest

MAX_TRIES: Final = 2
"""Few, so that the bound is met."""


@dataclass
class Job:
    """One row of `ops.matter_frame_jobs`."""

    status: str = "idle"
    generation: int = 0
    rebuild: bool = False
    pending: UUID | None = None
    tries: int = 0
    lease_over: bool = False
    skipped: bool = False

    @property
    def owed(self) -> bool:
        """Whether healing takes it up."""
        failed = self.status == "failed" and self.tries <= MAX_TRIES
        return self.status != "running" and (self.rebuild or failed)

    @property
    def given_up(self) -> bool:
        """Whether a person has to look."""
        return self.status == "failed" and not self.owed


@dataclass
class AgentRun:
    """One row of `agents.agent_run`."""

    firm: UUID
    matter: UUID
    generation: int
    event: UUID | None
    status: str = "running"


@dataclass(frozen=True)
class Won:
    """A claim that is won: the generation, and the event that its run row names."""

    generation: int
    event: UUID | None


@dataclass
class FrameModel:
    """Everything that the framer's gates read and write.

    Attributes:
        firm_of: each matter's firm.
        consents: whether each firm consents.
        jobs: by matter.
        runs: by agent_run_id.
    """

    firm_of: dict[UUID, UUID] = field(default_factory=dict)
    consents: dict[UUID, bool] = field(default_factory=dict)
    jobs: dict[UUID, Job] = field(default_factory=dict)
    runs: dict[UUID, AgentRun] = field(default_factory=dict)

    def handled(self, firm: UUID, event: UUID | None) -> bool:
        """Whether the event has its run row."""
        return event is not None and any(
            (run.firm, run.event) == (firm, event) for run in self.runs.values()
        )

    def visible(self, request: FrameRequest) -> bool:
        """Whether the matter is the firm's."""
        return self.firm_of[request.matter_id] == request.firm_id

    def claim(self, request: FrameRequest) -> Won | Outcome:
        """Win the job, or say why not; REFUSED where the matter is not visible."""
        job = self.jobs.get(request.matter_id, Job())
        event = request.event_id
        if event is None:
            if not job.owed:
                return Outcome.CLAIM_LOST
            handled = self.handled(request.firm_id, job.pending)
            event = None if handled else job.pending
        elif job.status == "running" and not job.lease_over:
            return self._lost(request, job)
        if not self.visible(request):
            return Outcome.REFUSED
        if not self.consents[request.firm_id]:
            return self.skip(request)
        if self.handled(request.firm_id, event):
            return Outcome.DUPLICATE
        for run in self.runs.values():
            if run.matter == request.matter_id and run.status == "running":
                run.status = "failed"
        self.jobs[request.matter_id] = Job(
            status="running",
            generation=job.generation + 1,
            tries=job.tries if request.event_id is None else 0,
            skipped=job.skipped,
        )
        return Won(job.generation + 1, event)

    def _lost(self, request: FrameRequest, job: Job) -> Outcome:
        if self.handled(request.firm_id, request.event_id):
            return Outcome.DUPLICATE
        job.rebuild, job.pending = True, request.event_id
        return Outcome.CLAIM_LOST

    def skip(self, request: FrameRequest) -> Outcome:
        """Write down that consent is missing, unless the event has its run row."""
        if self.handled(request.firm_id, request.event_id):
            return Outcome.DUPLICATE
        self.jobs.setdefault(request.matter_id, Job()).skipped = True
        return Outcome.CONSENT_BLOCKED

    def fence(self, run_id: UUID) -> str:
        """Look once more before the invoke."""
        run, held = self.runs[run_id], self.holds(run_id)
        if self.consents[run.firm]:
            return "held" if held else "lost"
        if not held:
            return "lost"
        job = self.jobs[run.matter]
        job.status, job.rebuild, job.skipped, run.status = "idle", True, True, "cancelled"
        return "consent_withdrawn"

    def holds(self, run_id: UUID) -> bool:
        """Whether the run's claim is the job's, and alive."""
        run = self.runs[run_id]
        job = self.jobs[run.matter]
        return job.status == "running" and job.generation == run.generation

    def complete(self, run_id: UUID, *, succeeded: bool = True) -> bool:
        """End the run and give its job back, if it still holds it."""
        if not self.holds(run_id):
            return False
        run = self.runs[run_id]
        job = self.jobs[run.matter]
        if succeeded:
            job.status, job.tries, run.status = "idle", 0, "succeeded"
        else:
            self._fail(run.matter)
        return True

    def extend(self, run_id: UUID) -> bool:
        """Begin the lease anew, if the run still holds its job."""
        if not self.holds(run_id):
            return False
        self.jobs[self.runs[run_id].matter].lease_over = False
        return True

    def stale(self) -> dict[UUID, int]:
        """Return the matters whose lease is over, each with its generation."""
        return {
            matter: job.generation
            for matter, job in self.jobs.items()
            if job.status == "running" and job.lease_over
        }

    def sweep(self, seen: dict[UUID, int]) -> int:
        """Fail those of `seen` that are still as they were seen; return how many."""
        failed = seen.items() & self.stale().items()
        for matter, _ in failed:
            self._fail(matter)
        return len(failed)

    def _fail(self, matter: UUID) -> None:
        job = self.jobs[matter]
        job.status, job.tries = "failed", job.tries + 1
        for run in self.runs.values():
            if (run.matter, run.generation) == (matter, job.generation):
                run.status = "failed"

    def owed(self) -> set[UUID]:
        """Return the matters that a healing look finds."""
        return {m for m, job in self.jobs.items() if job.owed and self.consents[self.firm_of[m]]}

    def request_rebuild(self, matter: UUID) -> bool:
        """Let a person ask for a frame."""
        job = self.jobs.get(matter)
        if job is None:
            return False
        job.rebuild, job.tries = True, 0
        return True
