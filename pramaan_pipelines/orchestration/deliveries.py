"""One delivery of one message: what its run is given, and what is done with it on the queue.

Promises: one run per delivery, named by message id and receive count; a message that a failed run
leaves is visible again soon; the message is held for the run that works on it.
Never: puts more of a message into run config than its validated pointers, or deletes one.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from dagster import (
    Config,
    Failure,
    HookContext,
    HookDefinition,
    OpExecutionContext,
    RunRequest,
    failure_hook,
)
from pydantic import Field

from pramaan_pipelines.contracts.envelopes import Envelope, parse_envelope, pointer_body
from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.framer.redelivery import redelivery_delay
from pramaan_pipelines.messaging.consumer import QueueConsumer, ReceivedMessage
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.consume_span import delivery_of
from pramaan_pipelines.telemetry.propagation import trace_from_xray_header

E = TypeVar("E", bound=Envelope)


class DeliveryConfig(Config):
    """One delivery of one message. The body holds validated pointers and marks, nothing else."""

    body: str = Field(description="the envelope, cut down to its valid pointer fields")
    problems: list[str] = Field(
        default_factory=list, description="where the sensor found the body wanting; never a value"
    )
    message_id: str = Field(description="SQS message id")
    receipt_handle: str = Field(description="what this delivery is deleted or handed back with")
    receive_count: int = Field(ge=1, description="which delivery of the message this is")
    traceparent: str | None = Field(
        default=None, description="of the message's AWSTraceHeader, where the body has no trace"
    )


def hand_back_on_failure(queue: str) -> HookDefinition:
    """Return the hook that makes a failed run's message visible again.

    So it heals soon, or reaches the dead-letter queue.

    Args:
        queue: the resource key of the queue's consumer.
    """

    @failure_hook(name="hand_back_on_failure", required_resource_keys={queue})
    def hand_back(context: HookContext) -> None:
        run = context.instance.get_run_by_id(context.run_id)
        delivery = None if run is None else delivery_of(run.run_config)
        if delivery is None:
            return
        error = context.op_exception
        refused = isinstance(error, Failure) and "outcome" in error.metadata
        delay = redelivery_delay(receive_count=delivery["receive_count"], refused=refused)
        consumer: QueueConsumer = getattr(context.resources, queue)
        consumer.hand_back(delivery["receipt_handle"], delay)

    return hand_back


def hold(context: OpExecutionContext, queue: QueueConsumer, receipt_handle: str) -> None:
    """Keep the message to this run, from its first op on.

    However long the run stood in Dagster's queue, from here on the message is its own for a whole
    visibility timeout, which is longer than the job may run.
    """
    try:
        held = queue.hold(receipt_handle)
    except DestinationError:
        # It stays hidden as the receive hid it; that is no reason to spend a delivery.
        context.log.warning("the queue did not answer: the message is not held anew")
    else:
        if not held:
            context.log.warning(
                "this delivery's receipt is no longer good: the message may run elsewhere "
                "too, where one of the two will end as a duplicate"
            )


def read(config: DeliveryConfig, model: type[E]) -> E:
    """Return the envelope of a delivery (gate 1, HR-21).

    Raises:
        EnvelopeRefusedError: with what the sensor saw in the body; only marks are left of it here.
    """
    try:
        return parse_envelope(config.body, model)
    except EnvelopeRefusedError as refused:
        places = config.problems or refused.places
        raise EnvelopeRefusedError(refused.reason, places) from None


def run_request(
    message: ReceivedMessage, model: type[E], subject: Callable[[E], Mapping[str, str]]
) -> RunRequest:
    """Return the run of one delivery.

    The run_key names the delivery, not the event: a used run_key blocks for ever, and what died
    before its claim must be able to run again (H12).

    Args:
        message: as received.
        model: the envelope that the queue's consumer reads.
        subject: what the run is found by, beside its event, firm, message and trace.
    """
    tags = {names.TAG_MESSAGE: message.message_id}
    problems: list[str] = []
    trace = TraceContext()
    try:
        envelope = parse_envelope(message.body, model)
    except EnvelopeRefusedError as refused:
        problems = list(refused.places)
    else:
        tags |= {names.TAG_EVENT: str(envelope.event_id), names.TAG_FIRM: str(envelope.firm_id)}
        tags |= subject(envelope)
        trace = envelope.trace
    # The stored trace is the producer's, and wins; the header names the last sender.
    beside = None if trace.traceparent else trace_from_xray_header(message.trace_header)
    trace_id = trace.trace_id if beside is None else beside.trace_id
    if trace_id is not None:
        tags[names.TAG_TRACE] = trace_id
    delivery = {
        "body": pointer_body(message.body, model),
        "problems": problems,
        "message_id": message.message_id,
        "receipt_handle": message.receipt_handle,
        "receive_count": message.receive_count,
        "traceparent": None if beside is None else beside.traceparent,
    }
    return RunRequest(
        run_key=f"{message.message_id}:{message.receive_count}",
        run_config={"ops": {"parse": {"config": delivery}}},
        tags=tags,
    )
