"""The framer job and the sensor that makes one run of each message.

Promises: one run per delivery, named by message id and receive count; the sensor takes no more
messages than the job has free places for, ends its tick in about ten seconds, and deletes nothing.
Never: puts more of a message into run config than its validated pointers.
"""

from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Final

from dagster import (
    AssetObservation,
    DagsterInstance,
    DefaultSensorStatus,
    Failure,
    HookContext,
    ResourceParam,
    RunRequest,
    RunsFilter,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    failure_hook,
    in_process_executor,
    job,
    sensor,
)

from pramaan_pipelines.contracts.envelopes import pointer_body
from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError
from pramaan_pipelines.contracts.text import counted
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.framer.gates import parse
from pramaan_pipelines.framer.redelivery import redelivery_delay
from pramaan_pipelines.messaging.consumer import QueueConsumer, ReceivedMessage
from pramaan_pipelines.orchestration import framer_ops as ops
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.consume_span import delivery_of
from pramaan_pipelines.orchestration.road import FRAMER_QUEUE
from pramaan_pipelines.orchestration.unfinished import UNFINISHED
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.propagation import trace_from_xray_header

MAX_FRAMER_RUNS: Final = 6
"""Places for framer runs, queued or running; dagster.yaml runs as many at once."""

TICK_SECONDS: Final = 10.0
LONGEST_LIFE: Final = timedelta(hours=1)
"""Well over what a run may wait (its places are few) and run (its `dagster/max_runtime`)."""


@failure_hook(required_resource_keys={"framer_queue"})
def hand_back_on_failure(context: HookContext) -> None:
    """Make the message visible again, so that it heals soon or reaches the dead-letter queue."""
    run = context.instance.get_run_by_id(context.run_id)
    if run is None:
        return
    delivery = delivery_of(run.run_config)
    if delivery is None:
        return
    error = context.op_exception
    refused = isinstance(error, Failure) and "outcome" in error.metadata
    delay = redelivery_delay(receive_count=delivery["receive_count"], refused=refused)
    queue: QueueConsumer = context.resources.framer_queue
    queue.hand_back(delivery["receipt_handle"], delay)


def gates_from_coherence(visit: Any) -> list[Any]:
    """Wire the gates that a message's run and a healing run share; returns every good end."""
    granted, blocked, seen = ops.consent_gate(ops.coherence_gate(visit))
    claimed, repeated, lost, blocked_late = ops.claim_gate(granted)
    done, accepted, lost_late, withdrawn = ops.invoke_gate(claimed)
    released = ops.release_gate(done)
    return [
        blocked,
        seen,
        repeated,
        lost,
        blocked_late,
        accepted,
        lost_late,
        withdrawn,
        released,
    ]


@job(
    description=(
        "One run per `matter.created` envelope; its ops are the gates, in contract order. A run "
        "that stops before `invoke` shows by its last green op where and why; a red op names the "
        "reason. Started by `framer_events_sensor`; safe to repeat."
    ),
    executor_def=in_process_executor,
    hooks={hand_back_on_failure},
    tags={
        names.TAG_RAIL: names.RAIL_FRAMER,
        **names.NO_RUN_RETRIES,
        **names.max_runtime(600),
    },
)
def framer_trigger_job() -> None:
    """Wire the gates."""
    fresh, duplicate = ops.dedupe_gate(ops.environment_gate(ops.parse_gate()))
    ops.acknowledge([duplicate, *gates_from_coherence(fresh)])


@sensor(
    job=framer_trigger_job,
    # Under the daemon's loop of 5 s, so that every loop is a tick.
    minimum_interval_seconds=2,
    default_status=DefaultSensorStatus.RUNNING,
    description=(
        "Receives from the framer queue and yields one run per message. It deletes nothing: a "
        "message that no run brings to its end comes again, and after three deliveries stands on "
        "the dead-letter queue."
    ),
)
def framer_events_sensor(
    context: SensorEvaluationContext,
    framer_queue: ResourceParam[QueueConsumer],
    database: ResourceParam[Database],
) -> SensorResult | SkipReason:
    """Receive as many messages as there are free places."""
    deadline = monotonic() + TICK_SECONDS
    # While Postgres is away every run would fail, and three deliveries put a good message on the
    # dead-letter queue. The tick fails instead, and the messages wait on the queue.
    database.ping()
    places = MAX_FRAMER_RUNS - unfinished_framer_runs(context.instance)
    if places <= 0:
        return SkipReason(f"all {MAX_FRAMER_RUNS} places are taken; messages wait on the queue")
    # Before receiving: a call that fails with messages in hand would hide them for a whole
    # visibility time-out.
    depth = framer_queue.depth()
    messages: list[ReceivedMessage] = []
    while len(messages) < places and monotonic() < deadline:
        received = framer_queue.receive(places - len(messages), 0)
        if not received:
            break
        messages.extend(received)
    if not messages:
        dead = framer_queue.dead_letter_depth().total
        letters = counted(dead, "dead letter")
        waiting = f", BUT {letters} to see to: redrive_dead_letters_job" if dead else ""
        return SkipReason(f"the queue is empty{waiting}")
    observed = {"visible": depth.visible, "in_flight": depth.in_flight, "received": len(messages)}
    return SensorResult(
        run_requests=[run_request(message) for message in messages],
        asset_events=[AssetObservation(FRAMER_QUEUE, metadata=observed)],
    )


def unfinished_framer_runs(instance: DagsterInstance) -> int:
    """Count the runs of the framer's rail that are queued or running, healing runs among them.

    A run that a daemon left half submitted counts no longer than a run may live.
    """
    return instance.get_runs_count(
        RunsFilter(
            tags={names.TAG_RAIL: names.RAIL_FRAMER},
            statuses=UNFINISHED,
            created_after=datetime.now(UTC) - LONGEST_LIFE,
        )
    )


def run_request(message: ReceivedMessage) -> RunRequest:
    """Return the run of one delivery.

    The run_key names the delivery, not the event: a used run_key blocks for ever, and what died
    before its claim must be able to run again (H12).
    """
    body = pointer_body(message.body)
    tags = {names.TAG_MESSAGE: message.message_id}
    problems: list[str] = []
    trace = TraceContext()
    try:
        envelope = parse(message.body)
    except EnvelopeRefusedError as refused:
        problems = list(refused.places)
    else:
        tags |= {
            names.TAG_EVENT: str(envelope.event_id),
            names.TAG_FIRM: str(envelope.firm_id),
            names.TAG_MATTER: str(envelope.matter_id),
        }
        trace = envelope.trace
    # The stored trace is the producer's, and wins; the header names the last sender.
    beside = None if trace.traceparent else trace_from_xray_header(message.trace_header)
    trace_id = trace.trace_id if beside is None else beside.trace_id
    if trace_id is not None:
        tags[names.TAG_TRACE] = trace_id
    delivery = {
        "body": body,
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
