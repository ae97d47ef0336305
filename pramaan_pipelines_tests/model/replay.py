"""A trace's steps on the real code, with every rule on, in a real database.

Promises: what the model calls a transaction is one call of the real code; after each step the
tables are read back as a state of the model, and the model's invariants are asked about that.

The queue, its sensor and the clock are played here; everything else is `FrameJobClaims`, the gates,
`StaleFrameJobSweep`, `FrameHealing`, the completion and the run_keys of the real sensors.
"""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from pramaan_pipelines.framer.claims import FrameJobClaims, FrameRequest
from pramaan_pipelines.framer.completion import complete_frame, extend_frame_lease
from pramaan_pipelines.framer.healing import FrameHealing
from pramaan_pipelines.framer.sweep import StaleFrameJobSweep, StaleJob
from pramaan_pipelines.messaging.consumer import ReceivedMessage
from pramaan_pipelines.orchestration import framer, healing
from pramaan_pipelines_tests.framer.bench import LEASE_SECONDS, age, remove_matter
from pramaan_pipelines_tests.model.invariants import is_end, sent_events, violations
from pramaan_pipelines_tests.model.real_run import ORDER, RealRun, Tools
from pramaan_pipelines_tests.model.rules import Model, Rules, Setting
from pramaan_pipelines_tests.model.search import Trace, first_state, shown, transitions
from pramaan_pipelines_tests.model.state import (
    HEALING,
    NO_EVENT,
    AgentRun,
    At,
    Job,
    Message,
    Run,
    State,
    Step,
    bit,
    changed_at,
)
from pramaan_pipelines_tests.support.world import World

MOST_STEPS = 300
"""To a good end, from anywhere."""


class Replay:
    """One matter's world on the real code.

    Args:
        world: of the test; the matter, its events and its consent are the replay's own.
        setting: what the model was explored with.
    """

    def __init__(self, world: World, setting: Setting) -> None:
        self.model = Model(Rules(), setting)
        self.state = self._last = first_state(self.model)
        self.done: list[Step] = []
        self._world = world
        self._matter = world.matter(world.firm_a)
        self._events = [uuid4() for _ in range(max(setting.events) + 1)]
        self._message_ids = [str(uuid4()) for _ in setting.events]
        self._runs: list[RealRun] = []
        self._agents: dict[int, UUID] = {}
        self._invoked: set[UUID] = set()
        self._covers: dict[UUID, int] = {}
        self._run_keys: set[str] = set()
        self._seen: list[StaleJob] = []
        self._sweep = StaleFrameJobSweep(world.database, lease_seconds=LEASE_SECONDS)
        self._healing = FrameHealing(world.database, max_tries=setting.bound)
        claims = FrameJobClaims(
            world.database, lease_seconds=LEASE_SECONDS, max_tries=setting.bound
        )
        self._tools = Tools(world.database, claims, self._invoke)
        self._actors = {
            "queue": self._queue,
            "sensor": self._sensor,
            "sweep": self._sweeps,
            "healing": self._heals,
            "agent": self._agent,
            "world": self._happens,
        }
        world.set_consent(world.firm_a, granted=setting.consent)

    # What is done, and whether it could be.

    def follow(self, trace: Trace) -> None:
        """Do what a trace did, as far as the real code lets it."""
        for step in trace:
            self.take(step)

    def settle(self) -> None:
        """Let everything come to its end, without another fault."""
        for _ in range(MOST_STEPS):
            if is_end(self.model, self.state):
                return
            fair = [t.step for t in transitions(self.model, self.state) if t.fair]
            # A sign of life changes nothing in the end, and a stale receipt nothing at all.
            fair = [step for step in fair if step.does != "gives a sign of life"]
            assert fair, f"nothing can happen any more:\n{self.told()}"
            assert any(self.take(step) for step in fair), f"all stands still:\n{self.told()}"
        raise AssertionError(f"no end in sight:\n{self.told()}")

    def take(self, step: Step) -> bool:
        """Do one step; False where the real code has gone another way, so that it cannot be."""
        if step.run is not None and step.actor == "run":
            return self._take_of_run(step)
        if not self._actors[step.actor](step):
            return False
        self._look(step)
        return True

    def told(self) -> str:
        """Return what was done so far, and what it came to."""
        return f"{shown(tuple(self.done))}\n{self.state}"

    def _take_of_run(self, step: Step) -> bool:
        assert step.run is not None
        run = self._match(step.run)
        while run is not None and run.at is not None and _before(run.as_run(), step.run):
            self._pass(run)
        if run is None or run.at != step.run.at:
            return False
        if step.does.startswith("dies"):
            now = Step("run", step.does, run=run.as_run(), fault=True)
            self._runs.remove(run)
            self._look(now)
        elif step.fault:
            self._pass(replace(run), fault=True)
        elif run.at == "acknowledge" and "stale" in step.told:
            now = Step("run", "acknowledge", run=run.as_run(), told=step.told)
            self._runs.remove(run)
            self._look(now)
        else:
            self._pass(run)
        return True

    def _match(self, wanted: Run) -> RealRun | None:
        same = [
            run
            for run in self._runs
            if (run.message, run.delivery) == (wanted.message, wanted.delivery)
        ]
        exact = [run for run in same if run.as_run() == wanted]
        return next(iter(exact or same), None)

    def _pass(self, run: RealRun, *, fault: bool = False) -> None:
        now = run.as_run()
        if run.at == "acknowledge":
            place = self.state.messages[run.message].place
            if place not in {"deleted", "dead"}:
                self._put(run.message, Message("deleted", 0))
            run.at, told = None, "deleted"
        else:
            told = run.pass_gate(self._tools)
            if told == "consent_blocked" or "consent is gone" in told:
                event = self.model.event_of(run.message)
                self.state = self.state._replace(skipped=self.state.skipped | bit(event))
        if run.at is None and run in self._runs:
            self._runs.remove(run)
        self._look(Step("run", now.at, run=now, generation=now.generation, told=told, fault=fault))

    # The actors.

    def _queue(self, step: Step) -> bool:
        message = self.state.messages[step.number]
        wanted, then = {
            "is sent": ("unsent", Message("queued", 0)),
            "is visible again": ("in_flight", Message("queued", message.receives)),
            "is visible again while its run lives": (
                "in_flight",
                Message("queued", message.receives),
            ),
            "goes to the DLQ": ("queued", Message("dead", 0)),
            "is redriven": ("dead", Message("queued", 0)),
        }[step.does]
        if message.place != wanted:
            return False
        if step.does == "is redriven":
            self._message_ids[step.number] = str(uuid4())  # what is sent is a copy
        self._put(step.number, then)
        return True

    def _sensor(self, step: Step) -> bool:
        message = self.state.messages[step.number]
        if message.place != "queued":
            return False
        delivery = message.receives + 1
        self._put(step.number, Message("in_flight", delivery))
        key = self._run_key(step.number, delivery)
        if "dies" in step.does or key in self._run_keys:
            return True
        self._run_keys.add(key)
        event = self.model.event_of(step.number)
        forged = event in self.model.setting.forged
        firm = self._world.firm_b if forged else self._world.firm_a
        request = FrameRequest(firm, self._matter, self._events[event])
        stops = forged or self.model.setting.vanishes
        self._runs.append(RealRun(step.number, delivery, request, "dedupe", stops))
        return True

    def _run_key(self, number: int, delivery: int) -> str:
        received = ReceivedMessage(
            message_id=self._message_ids[number],
            receipt_handle="a receipt",
            body="{}",
            receive_count=delivery,
            sent_at=datetime.now(UTC),
        )
        key = framer.run_request(received).run_key
        assert key is not None
        return key

    def _sweeps(self, step: Step) -> bool:
        if step.does == "looks":
            self._seen = self._sweep.stale() or []
            return bool(self._seen)
        if step.does == "fails the agent run":
            return False  # it failed with its job
        if self._seen:
            seen, self._seen = self._seen, []
            failed = [self._sweep._fail(job) for job in seen]
            return any(failed)
        return self._sweep.sweep().failed > 0

    def _heals(self, step: Step) -> bool:
        del step
        owed = [frame for frame in self._healing.owed(10) if frame.matter_id == self._matter]
        if not owed:
            return False
        key = healing.run_request(owed[0]).run_key
        if key is not None and key in self._run_keys:
            return False
        if key is not None:
            self._run_keys.add(key)
        stops = self.model.setting.vanishes
        request = FrameRequest(owed[0].firm_id, owed[0].matter_id, None)
        first: At = "coherence" if stops else "consent"
        self._runs.append(RealRun(HEALING, 0, request, first, stops))
        return True

    def _agent(self, step: Step) -> bool:
        run_id = self._agents.get(step.generation)
        if run_id is None:
            return False
        key: dict[str, Any] = {"firm_id": self._world.firm_a, "agent_run_id": run_id}
        match step.does:
            case "gives a sign of life":
                return extend_frame_lease(self._world.database, **key)
            case "completes":
                complete_frame(self._world.database, succeeded=True, **key)
            case "reports that it failed":
                complete_frame(self._world.database, succeeded=False, **key)
        del self._agents[step.generation]
        return True

    def _happens(self, step: Step) -> bool:
        job, firm = self.state.job, self._world.firm_a
        match step.does:
            case "lease runs out":
                if job is None or job.status != "running" or job.lease_over:
                    return False
                age(self._world, self._request())
            case "grants consent":
                self._world.set_consent(firm, granted=True)
                self.state = self.state._replace(consent=True)
            case "revokes consent":
                self._world.set_consent(firm, granted=False)
                left = self.state.revocations_left - 1
                self.state = self.state._replace(consent=False, revocations_left=left)
            case "removes the matter":
                remove_matter(self._world.god, self._matter)
                self.state = self.state._replace(matter=False)
        return True

    def _invoke(self, run_id: UUID, generation: int) -> bool:
        accepted = self.model.setting.accepted
        if accepted and run_id not in self._invoked:
            self._agents[generation] = run_id
        self._invoked.add(run_id)
        return accepted

    # What the tables say.

    def _look(self, step: Step) -> None:
        before, after = self._last, self._read(step)
        self.done.append(step)
        self.state = self._last = after
        broken = list(violations(self.model, before, step, after))
        assert not broken, f"{broken}\n{self.told()}"

    def _read(self, step: Step) -> State:
        rows = sorted(
            self._world.runs(self._matter), key=lambda row: int(row["claimed_generation"])
        )
        built = self.state.built
        for old, row in zip(self.state.agent_runs, rows, strict=False):
            if old.status == "running" and row["status"] == "succeeded":
                built |= old.covers
        agent_runs = tuple(self._agent_run(row) for row in rows)
        generations = [run.generation for run in agent_runs]
        job = self._job()
        return self.state._replace(
            job=job,
            agent_runs=agent_runs,
            runs=tuple(sorted(run.as_run() for run in self._runs)),
            agents=tuple(sorted(generations.index(held) for held in self._agents)),
            faults=self.state.faults + step.fault,
            built=built,
            failures=self._failures(step, job, len(agent_runs)),
        )

    def _failures(self, step: Step, job: Job | None, runs: int) -> int:
        """Count what failed_tries should say, without believing it."""
        before = self._last
        won = step.does == "claim" and runs > len(before.agent_runs)
        if won and step.run is not None and step.run.message != HEALING:
            return 0
        if before.job is None or job is None or before.job.status != "running":
            return before.failures
        if job.status == "failed":
            return before.failures + 1
        ended = job.status == "idle" and step.does in {"release", "completes"}
        return 0 if ended else before.failures

    def _agent_run(self, row: dict[str, Any]) -> AgentRun:
        run_id, running = UUID(row["id"]), row["status"] == "running"
        covers = self._covers.setdefault(run_id, sent_events(self.model, self.state))
        return AgentRun(
            trigger=self._event(row["trigger_event_id"]),
            generation=int(row["claimed_generation"]),
            status=row["status"],
            invoked=run_id in self._invoked,
            covers=covers if running else 0,
        )

    def _job(self) -> Job | None:
        row = self._world.job(self._matter)
        if row is None:
            return None
        running = row["run_status"] == "running"
        over = running and self._world.one(
            "SELECT claimed_at < now() - make_interval(secs => %s) "
            "FROM ops.matter_frame_jobs WHERE matter_id = %s",
            LEASE_SECONDS,
            self._matter,
        )
        return Job(
            status=row["run_status"],
            rebuild_needed=row["rebuild_needed"],
            generation=row["claimed_generation"],
            lease_over=over,
            failed_tries=row["failed_tries"],
            pending=self._event(row["pending_event_id"]),
        )

    def _event(self, event_id: str | None) -> int:
        return NO_EVENT if event_id is None else self._events.index(UUID(event_id))

    def _request(self) -> FrameRequest:
        return FrameRequest(self._world.firm_a, self._matter, None)

    def _put(self, number: int, message: Message) -> None:
        messages = changed_at(self.state.messages, number, message)
        self.state = self.state._replace(messages=messages)


def _before(run: Run, wanted: Run) -> bool:
    return ORDER.index(run.at) < ORDER.index(wanted.at)
