"""The framer job, and what makes one run of each message of its queue.

Promises: the gates are wired in contract order; every end but a red one flows into `acknowledge`.
Never: holds a gate's logic, or the sensor's: `framer_ops` and `subscriptions` do.
"""

from typing import Any, Final

from dagster import DagsterInstance, RunRequest, in_process_executor, job

from pramaan_pipelines.contracts.envelopes import MatterCreated
from pramaan_pipelines.messaging.consumer import ReceivedMessage
from pramaan_pipelines.messaging.queues import FRAMER_EVENTS
from pramaan_pipelines.orchestration import deliveries, names
from pramaan_pipelines.orchestration import framer_ops as ops
from pramaan_pipelines.orchestration.subscriptions import Subscription, unfinished_runs
from pramaan_pipelines.telemetry.metrics import DurationMetric
from pramaan_pipelines.telemetry.spans import SpanName

MAX_FRAMER_RUNS: Final = 6
"""Framer runs at once, as dagster.yaml says."""

FRAMER_PLACES: Final = 2 * MAX_FRAMER_RUNS
"""Framer runs queued or running: as many again wait, so that a place which comes free between two
ticks is taken at once. Two lives of a run end within the queue's visibility time-out."""

FRAMER_QUEUE: Final = "framer_queue"
"""The resource that ops and hooks find the queue's consumer by."""


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
    hooks={deliveries.hand_back_on_failure(FRAMER_QUEUE)},
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


FRAMER: Final = Subscription(
    name="framer",
    sensor="framer_events_sensor",
    queue=FRAMER_EVENTS,
    resource=FRAMER_QUEUE,
    span_resource="consume_span",
    span=SpanName.FRAMER_CONSUME,
    duration=DurationMetric.FRAMER_TRIGGER,
    job=framer_trigger_job,
    envelope=MatterCreated,
    subject=lambda created: {names.TAG_MATTER: str(created.matter_id)},
    rail=names.RAIL_FRAMER,
    places=FRAMER_PLACES,
)


def unfinished_framer_runs(instance: DagsterInstance) -> int:
    """Count the runs of the framer's rail that are queued or running, healing runs among them."""
    return unfinished_runs(instance, names.RAIL_FRAMER)


def run_request(message: ReceivedMessage) -> RunRequest:
    """Return the run of one delivery of a `matter.created`."""
    return deliveries.run_request(message, FRAMER.envelope, FRAMER.subject)
