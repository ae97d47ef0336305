"""The framer's side of a machine: messages, runs that pass gates, and what must always hold.

Messages and their visibility are played here; each gate is the real one, beside what the model says
that it comes to.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal
from uuid import UUID, uuid4

from hypothesis.stateful import invariant

from pramaan_pipelines.contracts.outcomes import Outcome
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines.framer.healing import FrameHealing
from pramaan_pipelines.framer.sweep import StaleFrameJobSweep, StaleJob
from pramaan_pipelines_tests.framer.bench import LEASE_SECONDS
from pramaan_pipelines_tests.model.real_run import RealRun, Tools
from pramaan_pipelines_tests.properties.bench import Bench, Machine, RealAgentRun, RealJob
from pramaan_pipelines_tests.properties.frame_model import MAX_TRIES, AgentRun, FrameModel, Won


@dataclass
class Message:
    """One message on the framer queue."""

    request: FrameRequest
    place: Literal["queued", "in flight", "deleted", "dead"] = "queued"
    receives: int = 0
    delivery: int = 0
    """The receives over its whole life, so that each delivery has a receipt of its own."""


class FramerSide(Machine):
    """Messages, the runs that they cause, and the model of both tables."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.frames = FrameModel()
        self.matters: list[UUID] = []
        self.messages: list[Message] = []
        self.requests: dict[UUID, FrameRequest] = {}
        self.runs: list[RealRun] = []
        self.claims: list[Claim] = []
        self.outcomes: dict[UUID, set[str]] = defaultdict(set)
        self.lost_to: dict[UUID, int] = {}
        self._told: dict[int, str] = {}
        self._accepts = False
        self._seen: list[StaleJob] = []
        self._before: tuple[dict[UUID, RealJob], dict[UUID, RealAgentRun]] = ({}, {})
        for firm in (self.world.firm_a, self.world.firm_b):
            self.frames.consents[firm] = True
        for firm in (self.world.firm_a, self.world.firm_b):
            self.know(self.world.matter(firm), firm)
        database = bench.database
        self._sweep = StaleFrameJobSweep(database, lease_seconds=LEASE_SECONDS)
        self._healing = FrameHealing(database, max_tries=MAX_TRIES)
        claims = FrameJobClaims(database, lease_seconds=LEASE_SECONDS, max_tries=MAX_TRIES)
        self._tools = Tools(database, claims, self._invoke)

    def know(self, matter: UUID, firm: UUID) -> None:
        """Take in a matter."""
        self.matters.append(matter)
        self.frames.firm_of[matter] = firm

    def announce(self, request: FrameRequest) -> None:
        """Bring an event on its way; here, onto the queue at once."""
        self.send(request)

    # Invariants.

    @invariant()
    def claims_and_runs_are_lawful(self) -> None:
        jobs = {job.matter: job for job in self.bench.jobs()}
        runs = {run.id: run for run in self.bench.runs()}
        old_jobs, old_runs = self._before
        self._before = (jobs, runs)
        assert set(jobs) >= set(old_jobs)
        assert set(runs) >= set(old_runs)
        for matter, job in jobs.items():
            live = [run for run in runs.values() if (run.matter, run.status) == (matter, "running")]
            assert len(live) <= 1, "two live claims of a matter"
            assert bool(live) == (job.status == "running"), (
                "a claim without its run, or the reverse"
            )
            assert all(run.generation == job.generation for run in live)
            if matter in old_jobs:
                assert job.generation >= old_jobs[matter].generation, "a generation went back"
        triggers = [(run.firm, run.event) for run in runs.values() if run.event is not None]
        assert len(triggers) == len(set(triggers)), "two agent runs of an event"
        for run in runs.values():
            old = old_runs.get(run.id)
            if old is None:
                assert self.frames.consents[run.firm], "a run row without consent"
                assert self.frames.firm_of[run.matter] == run.firm, "a forged run"
            elif old.status != "running":
                assert run == old, "an end was changed"
            assert run.finished == (run.status != "running")
        self._compare(jobs, runs)

    def _compare(self, jobs: dict[UUID, RealJob], runs: dict[UUID, RealAgentRun]) -> None:
        firm_of = self.frames.firm_of
        assert jobs == {
            matter: RealJob(
                matter,
                firm_of[matter],
                job.status,
                job.generation,
                job.generation,
                job.rebuild,
                job.pending,
                job.tries,
                jobs[matter].lease_over if job.status != "running" else job.lease_over,
                job.skipped,
            )
            for matter, job in self.frames.jobs.items()
        }
        assert runs == {
            run_id: RealAgentRun(
                run_id,
                run.firm,
                run.matter,
                run.generation,
                run.event,
                run.status,
                run.status != "running",
            )
            for run_id, run in self.frames.runs.items()
        }

    def _late(self, claim: Claim, *, told: bool) -> None:
        """An old generation's write changes nothing, whatever it was told."""
        old_jobs, old_runs = self._before
        if claim.generation == old_jobs[claim.matter_id].generation:
            return
        assert not told, "an old generation was obeyed"
        assert {job.matter: job for job in self.bench.jobs()} == old_jobs
        assert {run.id: run for run in self.bench.runs()} == old_runs

    # Parts.

    def send(self, request: FrameRequest) -> None:
        """Put an event's message on the queue."""
        assert request.event_id is not None
        self.requests[request.event_id] = request
        self.messages.append(Message(request))

    def _pass(self, run: RealRun, gates: int) -> None:
        for _ in range(gates):
            if run.at == "acknowledge":
                self._acknowledge(run)
            if run.at is not None:
                self._pass_one(run)
            if run.at is None:
                if run in self.runs:
                    self.runs.remove(run)
                return

    def _pass_one(self, run: RealRun) -> None:
        want, at = self._predict(run), run.at
        told = run.pass_gate(self._tools)
        if isinstance(want, Won):
            assert run.claim is not None
            request = run.request
            self.claims.append(run.claim)
            self.frames.runs[run.claim.agent_run_id] = AgentRun(
                request.firm_id, request.matter_id, want.generation, want.event
            )
            assert told == f"wins generation {want.generation}"
        else:
            assert told == want, f"at {at}"
        self._told[id(run)] = str(run.outcome or told)

    def _predict(self, run: RealRun) -> str | Won:
        frames, request, told = self.frames, run.request, ""
        run_id = uuid4() if run.claim is None else run.claim.agent_run_id
        match run.at:
            case "dedupe":
                handled = frames.handled(request.firm_id, request.event_id)
                told = "duplicate" if handled else "fresh"
            case "coherence":
                told = "visible" if frames.visible(request) else "refused"
            case "consent":
                told = "granted" if frames.consents[request.firm_id] else "blocked"
            case "skip":
                told = str(run.outcome or frames.skip(request))
            case "claim":
                return self._predict_claim(request)
            case "fence":
                told = frames.fence(run_id)
            case "invoke":
                told = "accepted" if self._accepts else "done"
            case "release":
                told = "given back" if frames.complete(run_id) else "no row"
        return told

    def _predict_claim(self, request: FrameRequest) -> str | Won:
        before = self.frames.jobs.get(request.matter_id)
        claimed = self.frames.claim(request)
        if claimed is Outcome.CLAIM_LOST and request.event_id is not None:
            assert before is not None
            self.lost_to[request.event_id] = before.generation
        if isinstance(claimed, Won):
            return claimed
        if claimed is Outcome.REFUSED:
            return "rolled back: refused"
        if claimed is Outcome.CONSENT_BLOCKED:
            return "rolled back: consent is gone"
        return str(claimed)

    def _acknowledge(self, run: RealRun) -> None:
        event = run.request.event_id
        if event is not None:
            self.outcomes[event].add(self._told[id(run)])
            message = self.messages[run.message]
            if (message.place, message.delivery) == ("in flight", run.delivery):
                message.place = "deleted"
        run.at = None

    def _invoke(self, run_id: UUID, generation: int) -> bool:
        assert self.frames.runs[run_id].generation == generation
        return self._accepts

    def _all(self, place: str) -> list[int]:
        return [n for n, message in enumerate(self.messages) if message.place == place]

    def _at_rest(self) -> list[UUID]:
        return [m for m, job in self.frames.jobs.items() if job.status != "running"]

    def _running(self) -> list[UUID]:
        return [m for m, job in self.frames.jobs.items() if job.status == "running"]
