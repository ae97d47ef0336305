"""The gates as ops, in contract order, and the acknowledgement that all good ends flow into.

Promises: an envelope that stops leaves its gate by an output named after the outcome, so that the
graph shows where; a refusal fails the run at its gate with the reason in the first line; the
message is deleted only after everything it caused is committed.
Never: holds gate logic; each op calls its function of the core.
"""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from dagster import (
    AssetMaterialization,
    AssetObservation,
    Backoff,
    Config,
    Jitter,
    OpExecutionContext,
    Out,
    Output,
    ResourceParam,
    RetryPolicy,
    op,
)
from pydantic import Field

from pramaan_pipelines.contracts.envelopes import MatterCreated
from pramaan_pipelines.contracts.invoke import InvokeAnswer, InvokePayload
from pramaan_pipelines.contracts.outcomes import Outcome, SkipReason
from pramaan_pipelines.framer import gates
from pramaan_pipelines.framer.agent import AgentInvoker
from pramaan_pipelines.framer.claims import Fence, FrameJobClaims
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.at_gate import at_gate, log_end, tag_trace
from pramaan_pipelines.orchestration.consume_span import Consumption
from pramaan_pipelines.orchestration.deliveries import DeliveryConfig, hold, read
from pramaan_pipelines.orchestration.pointers import Claimed, Ended, Parsed, Visit
from pramaan_pipelines.orchestration.road import AGENT, AGENT_RUNS, FRAME_JOBS
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.propagation import stamp_current_trace


class OwedConfig(Config):
    """A frame that is owed, without a message."""

    firm_id: str = Field(description="the matter's firm")
    matter_id: str = Field(description="the matter whose frame is owed")


def _branch(*outcomes: str) -> dict[str, Out]:
    return {name: Out(is_required=False, description=f"left by: {name}") for name in outcomes}


@op(
    name="parse",
    description="Gate 1 (HR-21): validate the envelope; EventBridge's wrapper is removed first.",
)
def parse_gate(
    context: OpExecutionContext,
    config: DeliveryConfig,
    framer_queue: ResourceParam[QueueConsumer],
    consume_span: ResourceParam[Consumption],
) -> Parsed:
    """Validate what the sensor passed on, with the same function."""
    tag_trace(context, consume_span)
    with at_gate(context, "parse", consume_span):
        hold(context, framer_queue, config.receipt_handle)
        envelope = read(config, MatterCreated)
    context.add_output_metadata({"event_id": str(envelope.event_id)})
    return Parsed(envelope=envelope, receipt_handle=config.receipt_handle)


@op(name="environment", description="Gate 2 (EB-09): the envelope's environment is ours.")
def environment_gate(
    context: OpExecutionContext,
    parsed: Parsed,
    settings: ResourceParam[Settings],
    consume_span: ResourceParam[Consumption],
) -> Visit:
    """Refuse another environment's event."""
    envelope = parsed.envelope
    with at_gate(context, "environment", consume_span):
        gates.check_environment(envelope, settings.pramaan_environment)
    return Visit(
        firm_id=envelope.firm_id,
        matter_id=envelope.matter_id,
        event_id=envelope.event_id,
        receipt_handle=parsed.receipt_handle,
    )


@op(
    name="owed",
    description="A healing run begins here, without a message: what the job table says is owed.",
)
def owed_frame(
    context: OpExecutionContext, config: OwedConfig, consume_span: ResourceParam[Consumption]
) -> Visit:
    """Name the frame; the claim looks again whether it is still owed (H3)."""
    tag_trace(context, consume_span)
    with at_gate(context, "owed", consume_span):
        return Visit(firm_id=UUID(config.firm_id), matter_id=UUID(config.matter_id))


@op(
    name="dedupe",
    out=_branch("fresh", "duplicate"),
    description="Gate 3 (EB-07): an event that has a run row was handled already.",
)
def dedupe_gate(
    context: OpExecutionContext,
    visit: Visit,
    database: ResourceParam[Database],
    consume_span: ResourceParam[Consumption],
) -> Iterator[Output[Visit | Ended]]:
    """Look for the event's run row."""
    with (
        at_gate(context, "dedupe", consume_span),
        database.firm(visit.firm_id) as connection,
    ):
        handled = visit.event_id is not None and gates.is_handled(
            connection, firm_id=visit.firm_id, event_id=visit.event_id
        )
    if handled:
        yield Output(Ended(visit=visit, outcome=Outcome.DUPLICATE, gate="dedupe"), "duplicate")
    else:
        yield Output(visit, "fresh")


@op(
    name="coherence",
    description="Gate 4 (EB-17, EB-06): the matter is visible under the envelope's firm.",
)
def coherence_gate(
    context: OpExecutionContext,
    visit: Visit,
    database: ResourceParam[Database],
    consume_span: ResourceParam[Consumption],
) -> Visit:
    """Refuse a firm that names another firm's matter."""
    request = visit.request
    with (
        at_gate(context, "coherence", consume_span),
        database.firm(request.firm_id) as connection,
    ):
        gates.check_subject(connection, firm_id=request.firm_id, matter_id=request.matter_id)
    return visit


@op(
    name="consent",
    out=_branch("granted", "consent_blocked", "duplicate"),
    description="Gate 5 (EB-11): the firm's egress consent, before any run row may exist.",
)
def consent_gate(
    context: OpExecutionContext,
    visit: Visit,
    database: ResourceParam[Database],
    claims: ResourceParam[FrameJobClaims],
    consume_span: ResourceParam[Consumption],
) -> Iterator[Output[Visit | Ended]]:
    """Go on only with consent; otherwise the skip is kept on the job row."""
    request, outcome = visit.request, None
    with at_gate(context, "consent", consume_span):
        with database.firm(request.firm_id) as connection:
            granted = gates.load_egress_consent(connection, firm_id=request.firm_id)
        if not granted:
            outcome = claims.record_skip(request, SkipReason.CONSENT_BLOCKED)
    if outcome is None:
        yield Output(visit, "granted")
    else:
        yield Output(Ended(visit=visit, outcome=outcome, gate="consent"), str(outcome))


@op(
    name="claim",
    out=_branch("claimed", "duplicate", "claim_lost", "consent_blocked"),
    description=(
        "Gate 6 (EB-16, EB-18): one atomic claim of the frame job, with the agent's run row in the "
        "same transaction."
    ),
)
def claim_gate(
    context: OpExecutionContext,
    visit: Visit,
    claims: ResourceParam[FrameJobClaims],
    consume_span: ResourceParam[Consumption],
) -> Iterator[Output[Claimed | Ended]]:
    """Win the job, or leave by the outcome's output."""
    with at_gate(context, "claim", consume_span):
        won = claims.claim(visit.request, stamp_current_trace())
    if isinstance(won, Outcome):
        yield Output(Ended(visit=visit, outcome=won, gate="claim"), str(won))
        return
    metadata: dict[str, Any] = {
        "agent_run_id": str(won.agent_run_id),
        "generation": won.generation,
    }
    # Observed: of an asset that is materialized, Dagster shows each older check as not evaluated.
    context.log_event(AssetObservation(FRAME_JOBS, metadata=metadata))
    context.log_event(AssetMaterialization(AGENT_RUNS, metadata=metadata))
    claimed = Claimed(visit=visit, agent_run_id=won.agent_run_id, generation=won.generation)
    yield Output(claimed, "claimed", metadata=metadata)


INVOKE_RETRIES: Final = RetryPolicy(
    max_retries=3, delay=2, backoff=Backoff.EXPONENTIAL, jitter=Jitter.FULL
)
"""Seconds. Each try carries the same agent_run_id, by which the agent dedupes."""


@op(
    name="invoke",
    out=_branch("done", "accepted", "claim_lost", "consent_blocked"),
    retry_policy=INVOKE_RETRIES,
    description="Gate 7 (EB-02): hand the five keys to the agent, after the commit.",
)
def invoke_gate(
    context: OpExecutionContext,
    claimed: Claimed,
    claims: ResourceParam[FrameJobClaims],
    agent: ResourceParam[AgentInvoker],
    consume_span: ResourceParam[Consumption],
) -> Iterator[Output[Claimed | Ended]]:
    """Look at the fence once more, then invoke."""
    claim, answer = claimed.claim, None
    with at_gate(context, "invoke", consume_span):
        fence = claims.fence(claim)
        if fence is Fence.HELD:
            answer = agent.invoke(
                InvokePayload(
                    firm_id=claim.firm_id,
                    matter_id=claim.matter_id,
                    agent_run_id=claim.agent_run_id,
                    **stamp_current_trace()._asdict(),
                )
            )
    if answer is not None:
        told = {"agent_run_id": str(claim.agent_run_id), "answer": str(answer)}
        context.log_event(AssetMaterialization(AGENT, metadata=told))
    match answer, fence:
        case InvokeAnswer.DONE, _:
            yield Output(claimed, "done")
        case InvokeAnswer.ACCEPTED, _:
            # H10: the agent's completion releases the job, not this run.
            yield Output(_end_at_invoke(claimed, Outcome.STARTED), "accepted")
        case _, Fence.CONSENT_WITHDRAWN:
            yield Output(_end_at_invoke(claimed, Outcome.CONSENT_BLOCKED), "consent_blocked")
        case _:
            yield Output(_end_at_invoke(claimed, Outcome.CLAIM_LOST), "claim_lost")


def _end_at_invoke(claimed: Claimed, outcome: Outcome) -> Ended:
    return Ended(visit=claimed.visit, outcome=outcome, gate="invoke")


@op(
    name="release",
    description="Gate 8: give the job back, fenced on the claim's generation.",
)
def release_gate(
    context: OpExecutionContext,
    claimed: Claimed,
    claims: ResourceParam[FrameJobClaims],
    consume_span: ResourceParam[Consumption],
) -> Ended:
    """Release; a zombie's release matches no row and changes nothing."""
    with at_gate(context, "release", consume_span):
        released = claims.release(claimed.claim)
    context.add_output_metadata({"released": released})
    if not released:
        context.log.warning(
            "the claim was lost before the release: this late write changed nothing"
        )
    return Ended(visit=claimed.visit, outcome=Outcome.STARTED, gate="release")


@op(
    name="acknowledge",
    description=(
        "Delete the message, after everything it caused is committed. Every acknowledged outcome "
        "ends here; a healing run has no message to delete."
    ),
)
def acknowledge(
    context: OpExecutionContext,
    ends: list[Ended],
    framer_queue: ResourceParam[QueueConsumer],
    consume_span: ResourceParam[Consumption],
) -> None:
    """Delete the message of the one end that this run came to."""
    (end,) = ends
    receipt = end.visit.receipt_handle
    with at_gate(context, "acknowledge", consume_span):
        deleted = receipt is not None and framer_queue.delete(receipt)
    tags = {names.TAG_OUTCOME: str(end.outcome), names.TAG_GATE: end.gate}
    if names.TAG_REASON in context.run.tags:
        # A re-execution copies the tags of the run that failed; a tag cannot be taken off.
        tags[names.TAG_REASON] = "mended"
    context.instance.add_run_tags(context.run_id, tags)
    context.add_output_metadata(
        {"outcome": str(end.outcome), "gate": end.gate, "message_deleted": deleted}
    )
    consume_span.ended(end.outcome)
    log_end(context, consume_span, end.gate, end.outcome)
    event = end.visit.event_id or "none, a healing run"
    context.log.info("event_id=%s outcome=%s gate=%s", event, end.outcome, end.gate)
