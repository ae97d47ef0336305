"""The framer's rules: deliveries, gates one by one, deaths, late writes, sweep, healing."""

from typing import Final, TypeVar
from uuid import UUID, uuid4

from hypothesis.stateful import initialize, precondition, rule
from hypothesis.strategies import booleans, integers, lists, sampled_from

from pramaan_pipelines.contracts.outcomes import Outcome
from pramaan_pipelines.framer.claims import FrameRequest
from pramaan_pipelines.framer.completion import complete_frame, extend_frame_lease
from pramaan_pipelines_tests.framer.bench import LEASE_SECONDS
from pramaan_pipelines_tests.model.real_run import RealRun
from pramaan_pipelines_tests.model.state import HEALING
from pramaan_pipelines_tests.properties.framer_side import FramerSide, Message

T = TypeVar("T")

MOST_RECEIVES: Final = 3
MOST_ROUNDS: Final = 30
"""To calm, from anywhere."""

PICK: Final = integers(0, 5)
"""Chooses one of whatever there is."""

GATES: Final = sampled_from([4, 9, 3, 6, 5, 4, 3, 6, 1, 2])
"""How many gates a run passes before something else happens: mostly to the claim or the invoke."""

THEN: Final = ("nothing", "a sweep", "a claim", "a look, and a sign of life")
"""What comes right after the end of a lease."""

EXPIRE: Final = f"""
    UPDATE ops.matter_frame_jobs SET claimed_at = now() - interval '{LEASE_SECONDS + 60} seconds'
    WHERE matter_id = %s AND run_status = 'running'
"""  # noqa: S608 - a number of ours


class FramerRules(FramerSide):
    """Messages, gates, and everything that may come in between."""

    # Events and their messages.

    @initialize(gates=lists(GATES, max_size=4))
    def begin_under_way(self, gates: list[int]) -> None:
        """Begin with several runs of one matter, each somewhere on its way."""
        for passed in gates:
            self.send(FrameRequest(self.world.firm_a, self.matters[0], uuid4()))
            self.deliver(-1, passed)

    @rule(pick=PICK)
    def announce_matter(self, pick: int) -> None:
        matter = one_of(self.matters, pick)
        self.announce(FrameRequest(self.frames.firm_of[matter], matter, uuid4()))

    @precondition(lambda self: all(map(self.frames.visible, self.requests.values())))
    @rule()
    def forge(self) -> None:
        """Let firm B name a matter of firm A."""
        self.send(FrameRequest(self.world.firm_b, self.matters[0], uuid4()))

    @precondition(lambda self: self.messages)
    @rule(pick=PICK)
    def send_again(self, pick: int) -> None:
        """The same event in another message, as after a crash of its relay."""
        self.messages.append(Message(one_of(self.messages, pick).request))

    @precondition(lambda self: self._all("queued"))
    @rule(pick=PICK, gates=GATES)
    def deliver(self, pick: int, gates: int) -> None:
        number = one_of(self._all("queued"), pick)
        message = self.messages[number]
        if message.receives == MOST_RECEIVES:
            message.place = "dead"
            return
        message.place = "in flight"
        message.receives += 1
        message.delivery += 1
        run = RealRun(number, message.delivery, message.request, "dedupe", stops_at_coherence=True)
        self.runs.append(run)
        self._pass(run, gates)

    @precondition(lambda self: self._all("in flight"))
    @rule(pick=PICK)
    def be_visible_again(self, pick: int) -> None:
        """Its run may be dead, or only slow."""
        self.messages[one_of(self._all("in flight"), pick)].place = "queued"

    @precondition(lambda self: self._all("dead"))
    @rule()
    def redrive_dead_letters(self) -> None:
        for number in self._all("dead"):
            self.messages[number].place = "queued"
            self.messages[number].receives = 0

    # Runs and what befalls them.

    @precondition(lambda self: self.runs)
    @rule(pick=PICK, gates=GATES, accepts=booleans())
    def go_on(self, pick: int, gates: int, accepts: bool) -> None:  # noqa: FBT001
        self._accepts = accepts
        self._pass(one_of(self.runs, pick), gates)
        self._accepts = False

    @precondition(lambda self: self.runs)
    @rule(pick=PICK)
    def die(self, pick: int) -> None:
        self.runs.pop(pick % len(self.runs))

    @rule(granted=sampled_from([False, True, None]), of_a=sampled_from([True, True, False]))
    def say_of_consent(self, granted: bool | None, of_a: bool) -> None:  # noqa: FBT001
        firm = self.world.firm_a if of_a else self.world.firm_b
        self.world.set_consent(firm, granted=granted)
        self.frames.consents[firm] = granted is True

    @precondition(lambda self: self._running())
    @rule(pick=PICK, then=sampled_from(THEN))
    def let_a_lease_end(self, pick: int, then: str) -> None:
        matter = one_of(self._running(), pick)
        self.bench.god.execute(EXPIRE, [matter])
        self.frames.jobs[matter].lease_over = True
        if then == "a sweep":
            self.sweep()
        if then == "a look, and a sign of life":
            self.sweep_looks()
            self.give_a_sign_of_life(0)
        if then == "a claim":
            self.send(FrameRequest(self.frames.firm_of[matter], matter, uuid4()))
            self.deliver(-1, 4)

    # Upkeep.

    @precondition(lambda self: self._running())
    @rule()
    def sweep(self) -> None:
        stale = self.frames.stale()
        result = self._sweep.sweep()
        assert (result.seen, result.failed) == (len(stale), self.frames.sweep(stale))

    @precondition(lambda self: self.frames.stale())
    @rule()
    def sweep_looks(self) -> None:
        """See what is stale, and act on it whenever."""
        self._seen = self._sweep.stale() or []
        assert {job.matter_id: job.generation for job in self._seen} == self.frames.stale()

    @precondition(lambda self: self._seen)
    @rule()
    def sweep_acts(self) -> None:
        seen = {job.matter_id: job.generation for job in self._seen}
        assert sum(self._sweep._fail(job) for job in self._seen) == self.frames.sweep(seen)

    @precondition(lambda self: self._at_rest())
    @rule(gates=GATES, runs=sampled_from([1, 1, 2]))
    def heal(self, gates: int, runs: int = 1) -> None:
        """Start a run for each frame owed; or two, for a person may start one too."""
        owed = self._healing.owed(len(self.matters) + 1)
        assert {frame.matter_id for frame in owed} == self.frames.owed()
        for frame in sorted(owed, key=lambda frame: self.matters.index(frame.matter_id)):
            request = FrameRequest(frame.firm_id, frame.matter_id, None)
            started = [
                RealRun(HEALING, 0, request, "coherence", stops_at_coherence=True)
                for _ in range(runs)
            ]
            self.runs += started
            self._pass(started[0], gates)

    @precondition(lambda self: self._at_rest())
    @rule(pick=PICK)
    def ask_for_a_frame(self, pick: int) -> None:
        matter = one_of(self.matters, pick)
        asked = self._healing.request_rebuild(self.frames.firm_of[matter], matter)
        assert asked is self.frames.request_rebuild(matter)

    # What an agent reports, of whichever generation.

    @precondition(lambda self: self.claims)
    @rule(pick=PICK)
    def give_a_sign_of_life(self, pick: int) -> None:
        claim = one_of(self.claims[::-1], pick)
        extended = extend_frame_lease(
            self.bench.database, firm_id=claim.firm_id, agent_run_id=claim.agent_run_id
        )
        self._late(claim, told=extended)
        assert extended is self.frames.extend(claim.agent_run_id)

    @precondition(lambda self: self.claims)
    @rule(pick=PICK, succeeded=booleans())
    def complete(self, pick: int, succeeded: bool) -> None:  # noqa: FBT001
        claim = one_of(self.claims[::-1], pick)
        done = complete_frame(
            self.bench.database,
            firm_id=claim.firm_id,
            agent_run_id=claim.agent_run_id,
            succeeded=succeeded,
        )
        self._late(claim, told=done)
        assert done is self.frames.complete(claim.agent_run_id, succeeded=succeeded)

    @precondition(lambda self: self.claims)
    @rule(pick=PICK)
    def release_with_an_old_claim(self, pick: int) -> None:
        claim = one_of(self.claims[::-1], pick)
        released = self._tools.claims.release(claim)
        self._late(claim, told=released)
        assert released is self.frames.complete(claim.agent_run_id)

    # To the end.

    def calm_frames(self) -> None:
        """Without further faults, let everything come to its end; then every event has one."""
        for firm in self.frames.consents:
            self.world.set_consent(firm, granted=True)
            self.frames.consents[firm] = True
        self._drive()
        self.redrive_dead_letters()
        self._drive()
        self.claims_and_runs_are_lawful()
        for event, request in self.requests.items():
            self._ended(event, request)

    def _drive(self) -> None:
        for _ in range(MOST_ROUNDS):
            for run in list(self.runs):
                self._pass(run, 9)
            assert not self.runs
            for matter in self._running():  # whose agent never reported
                self.bench.god.execute(EXPIRE, [matter])
                self.frames.jobs[matter].lease_over = True
            self.sweep()
            self.heal(9)
            for number in self._all("in flight"):
                self.messages[number].place = "queued"
            queued = self._all("queued")
            if not queued and not self._running() and not self.frames.owed():
                return
            for _ in queued:
                self.deliver(0, 9)
        raise AssertionError("no end in sight")

    def _ended(self, event: UUID, request: FrameRequest) -> None:
        runs = [run for run in self.frames.runs.values() if run.matter == request.matter_id]
        job = self.frames.jobs.get(request.matter_id)
        done = {run.generation for run in runs if run.status == "succeeded"}
        if not self.frames.visible(request):
            ended = {m.place for m in self.messages if m.request.event_id == event} == {"dead"}
            assert ended, "a forged event that is not on the dead-letter queue"
            assert not self.frames.handled(request.firm_id, event)
            return
        mine = [run.generation for run in runs if run.event == event]
        if mine:
            covered = max(done, default=0) >= mine[0]
        elif str(Outcome.CONSENT_BLOCKED) in self.outcomes[event]:
            return
        else:
            assert str(Outcome.CLAIM_LOST) in self.outcomes[event], "an event without an end"
            covered = max(done, default=0) > self.lost_to[event]
        assert covered or (job is not None and job.given_up), "an event without its frame"


def one_of(found: list[T], pick: int) -> T:
    """Return the one that `pick` chooses, whatever their number."""
    return found[pick % len(found)]
