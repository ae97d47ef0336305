"""A queue of events and the job that has one run of each message: the sensor between the two.

Promises: the sensor takes no more messages than the job has free places for, ends its tick in about
ten seconds, and deletes nothing. A new subscriber is one entry of `consumers.SUBSCRIPTIONS`.
Never: knows an event; what is one subscriber's own stands in its `Subscription`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Final

from dagster import (
    AssetObservation,
    DagsterInstance,
    DefaultSensorStatus,
    InitResourceContext,
    JobDefinition,
    ResourceDefinition,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    resource,
    sensor,
)

from pramaan_pipelines.contracts.envelopes import Envelope
from pramaan_pipelines.contracts.text import counted
from pramaan_pipelines.messaging.consumer import QueueConsumer, ReceivedMessage
from pramaan_pipelines.messaging.queues import WatchedQueue, consumer_of
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.consume_span import consume_span_of
from pramaan_pipelines.orchestration.deliveries import run_request
from pramaan_pipelines.orchestration.road import queue_key
from pramaan_pipelines.orchestration.unfinished import UNFINISHED
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.metrics import DurationMetric
from pramaan_pipelines.telemetry.spans import SpanName

TICK_SECONDS: Final = 10.0
LONGEST_LIFE: Final = timedelta(hours=1)
"""Well over what a run may wait (its places are few) and run (its `dagster/max_runtime`)."""


@dataclass(frozen=True)
class Subscription:
    """One subscriber: a queue that a rule of the bus fills, and the job of its messages.

    Attributes:
        name: in words, for what an operator reads.
        sensor: the name of its sensor.
        queue: its queue, and the setting that holds the URL.
        resource: the key under which ops and hooks find the queue's consumer.
        span_resource: the key under which they find the run's span and duration.
        span: the registered span of one run.
        duration: the histogram of one run.
        job: has one run of each delivery; its first op is called `parse` there and takes a
            `deliveries.DeliveryConfig`, its last deletes the message.
        envelope: what the queue's messages must be.
        subject: what a run is found by, beside its event, firm, message and trace.
        rail: the tag `pramaan/rail` of every run that takes one of the places.
        places: how many runs may be queued or running. Where dagster.yaml runs fewer at once, one
            that ends is followed without waiting for a tick.
    """

    name: str
    sensor: str
    queue: WatchedQueue
    resource: str
    span_resource: str
    span: SpanName
    duration: DurationMetric
    job: JobDefinition
    envelope: type[Envelope]
    subject: Callable[[Any], Mapping[str, str]]
    rail: str
    places: int

    def resources(self) -> dict[str, ResourceDefinition]:
        """Return what the job and the sensor need, by key."""
        return {
            self.resource: _queue_resource(self.queue),
            self.span_resource: consume_span_of(self.span, self.duration, self.envelope),
        }


def _queue_resource(queue: WatchedQueue) -> ResourceDefinition:
    # A client as impatient as a tick: nothing here polls for long.

    @resource(
        description=f"The queue of {queue.setting.upper()}, as its consumer.",
        required_resource_keys={"settings"},
    )
    def made(context: InitResourceContext) -> QueueConsumer:
        return consumer_of(context.resources.settings, queue)

    return made


def subscription_sensor(subscription: Subscription) -> SensorDefinition:
    """Return the sensor that makes one run of each message of the subscription's queue."""

    @sensor(
        name=subscription.sensor,
        job=subscription.job,
        # Under the daemon's loop of 5 s, so that every loop is a tick.
        minimum_interval_seconds=2,
        default_status=DefaultSensorStatus.RUNNING,
        required_resource_keys={"database", subscription.resource},
        description=(
            f"Receives from the {subscription.name} queue and yields one run per message. It "
            "deletes nothing: a message that no run brings to its end comes again, and after three "
            "deliveries stands on the dead-letter queue."
        ),
    )
    def receive(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        return _tick(subscription, context)

    return receive


def _tick(
    subscription: Subscription, context: SensorEvaluationContext
) -> SensorResult | SkipReason:
    """Receive as many messages as there are free places."""
    deadline = monotonic() + TICK_SECONDS
    database: Database = context.resources.database
    queue: QueueConsumer = getattr(context.resources, subscription.resource)
    # While Postgres is away every run would fail, and three deliveries put a good message on the
    # dead-letter queue. The tick fails instead, and the messages wait on the queue.
    database.ping()
    places = subscription.places - unfinished_runs(context.instance, subscription.rail)
    if places <= 0:
        return SkipReason(f"all {subscription.places} places are taken; messages wait on the queue")
    # Before receiving: a call that fails with messages in hand would hide them for a whole
    # visibility time-out.
    depth = queue.depth()
    messages: list[ReceivedMessage] = []
    while len(messages) < places and monotonic() < deadline:
        received = queue.receive(places - len(messages), 0)
        if not received:
            break
        messages.extend(received)
    if not messages:
        dead = queue.dead_letter_depth().total
        letters = counted(dead, "dead letter")
        waiting = f", BUT {letters} to see to: redrive_dead_letters_job" if dead else ""
        return SkipReason(f"the queue is empty{waiting}")
    observed = {"visible": depth.visible, "in_flight": depth.in_flight, "received": len(messages)}
    return SensorResult(
        run_requests=[
            run_request(message, subscription.envelope, subscription.subject)
            for message in messages
        ],
        asset_events=[AssetObservation(queue_key(subscription.queue), metadata=observed)],
    )


def unfinished_runs(instance: DagsterInstance, rail: str) -> int:
    """Count the runs of `rail` that are queued or running.

    A run that a daemon left half submitted counts no longer than a run may live.
    """
    return instance.get_runs_count(
        RunsFilter(
            tags={names.TAG_RAIL: rail},
            statuses=UNFINISHED,
            created_after=datetime.now(UTC) - LONGEST_LIFE,
        )
    )
