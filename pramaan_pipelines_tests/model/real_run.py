"""A Dagster run of the model, walked through the gates of the real code."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError, Outcome, SkipReason
from pramaan_pipelines.framer import gates
from pramaan_pipelines.framer.claims import Claim, Fence, FrameJobClaims, FrameRequest
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.framer.bench import TRACE
from pramaan_pipelines_tests.model.state import HEALING, At, Run

ORDER: Final[tuple[At, ...]] = (
    "dedupe",
    "coherence",
    "consent",
    "skip",
    "claim",
    "mark",
    "fence",
    "invoke",
    "release",
    "acknowledge",
)
Invoke = Callable[[UUID, int], bool]
"""Calls the agent with an agent run's id and generation; True where it answers "accepted"."""


@dataclass
class Tools:
    """What the ops are given as resources."""

    database: Database
    claims: FrameJobClaims
    invoke: Invoke


@dataclass
class RealRun:
    """One run under way.

    Attributes:
        message: its number, or HEALING.
        delivery: which delivery of the message.
        request: whose frame, by which event.
        at: the gate that comes next; None when it ended.
        stops_at_coherence: the model gives that gate a step of its own.
        claim: once it is won.
        outcome: what was recorded for its event, once it is.
    """

    message: int
    delivery: int
    request: FrameRequest
    at: At | None
    stops_at_coherence: bool
    claim: Claim | None = None
    outcome: Outcome | None = None

    def as_run(self) -> Run:
        """Return it as the model writes it."""
        assert self.at is not None
        generation = 0 if self.claim is None else self.claim.generation
        return Run(self.message, self.delivery, self.at, generation)

    def pass_gate(self, tools: Tools) -> str:
        """Do on the real code what comes next, and say what came of it."""
        assert self.at is not None
        told, then = GATES[self.at](self, tools)
        self.at = None if then == "acknowledge" and self.message == HEALING else then
        return told


Passed = tuple[str, At | None]


def _dedupe(run: RealRun, tools: Tools) -> Passed:
    request = run.request
    assert request.event_id is not None
    with tools.database.firm(request.firm_id) as connection:
        handled = gates.is_handled(connection, firm_id=request.firm_id, event_id=request.event_id)
    if handled:
        return "duplicate", "acknowledge"
    if run.stops_at_coherence:
        return "fresh", "coherence"
    return "fresh", _coherence(run, tools)[1]


def _coherence(run: RealRun, tools: Tools) -> Passed:
    request = run.request
    try:
        with tools.database.firm(request.firm_id) as connection:
            gates.check_subject(connection, firm_id=request.firm_id, matter_id=request.matter_id)
    except EnvelopeRefusedError:
        return "refused", None
    return "visible", "consent"


def _consent(run: RealRun, tools: Tools) -> Passed:
    firm = run.request.firm_id
    with tools.database.firm(firm) as connection:
        granted = gates.load_egress_consent(connection, firm_id=firm)
    return ("granted", "claim") if granted else ("blocked", "skip")


def _skip(run: RealRun, tools: Tools) -> Passed:
    if run.outcome is None:  # else the claim has recorded it
        run.outcome = tools.claims.record_skip(run.request, SkipReason.CONSENT_BLOCKED)
    return str(run.outcome), "acknowledge"


def _claim(run: RealRun, tools: Tools) -> Passed:
    try:
        won = tools.claims.claim(run.request, TRACE)
    except EnvelopeRefusedError:
        return "rolled back: refused", None
    if isinstance(won, Claim):
        run.claim = won
        return f"wins generation {won.generation}", "fence"
    run.outcome = won
    if won is Outcome.CONSENT_BLOCKED:
        return "rolled back: consent is gone", "skip"
    return str(won), "acknowledge"


def _fence(run: RealRun, tools: Tools) -> Passed:
    assert run.claim is not None
    try:
        fence = tools.claims.fence(run.claim)
    except EnvelopeRefusedError:
        return "refused", None
    return str(fence), "invoke" if fence is Fence.HELD else "acknowledge"


def _invoke(run: RealRun, tools: Tools) -> Passed:
    assert run.claim is not None
    accepted = tools.invoke(run.claim.agent_run_id, run.claim.generation)
    return ("accepted", "acknowledge") if accepted else ("done", "release")


def _release(run: RealRun, tools: Tools) -> Passed:
    assert run.claim is not None
    released = tools.claims.release(run.claim)
    return ("given back" if released else "no row"), "acknowledge"


GATES: Final[dict[At, Callable[[RealRun, Tools], Passed]]] = {
    "dedupe": _dedupe,
    "coherence": _coherence,
    "consent": _consent,
    "skip": _skip,
    "claim": _claim,
    "fence": _fence,
    "invoke": _invoke,
    "release": _release,
}
"""The queue's part, the acknowledgement, is the replay's."""
