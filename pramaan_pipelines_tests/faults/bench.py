"""A relay to be disturbed, and the ledger of what it did: produced against arrived."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.eventbridge import EventBusPublisher
from pramaan_pipelines.messaging.publisher import OutboundMessage, Publisher, SendResult
from pramaan_pipelines.messaging.sqs import QueueClient
from pramaan_pipelines.outbox.lanes import DOMAIN_EVENT, Lane
from pramaan_pipelines.outbox.relay import RelayRun, run_relay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry
from pramaan_pipelines_tests.faults.matrix import Measured
from pramaan_pipelines_tests.outbox.bench import put, rows
from pramaan_pipelines_tests.support.waiting import until
from pramaan_pipelines_tests.support.world import World

REFUSALS_THAT_PARK = 2
PAUSE_SECONDS = 0.05


@dataclass
class Disturbed:
    """A lane's relay, its rows and its destination.

    Attributes:
        lane: what is drained.
        world: the database, seen from the test.
        database: as the service role.
        settings: of the account, past every proxy.
        telemetry: where the spans go.
        produced: the events written so far.
        arrived: how often each event was taken off the destination.
    """

    lane: Lane
    world: World
    database: Database
    settings: Settings
    telemetry: Telemetry
    produced: list[str] = field(default_factory=list)
    arrived: Counter[str] = field(default_factory=Counter)

    @property
    def service(self) -> str:
        """The name that AWS gives the destination's service."""
        return "events" if self.lane is DOMAIN_EVENT else "sqs"

    @property
    def queue_url(self) -> str:
        """The queue where the lane's messages arrive."""
        bus = self.lane is DOMAIN_EVENT
        name = "framer_events_queue_url" if bus else "document_registration_queue_url"
        return self.settings.require(name)

    def put(self, count: int) -> list[str]:
        """Produce `count` events."""
        events = put(self.world, self.lane, count)
        self.produced += events
        return events

    def rows(self, events: list[str] | None = None) -> list[dict[str, Any]]:
        """Return the outbox rows of `events`, or of all."""
        return rows(self.world, self.lane, self.produced if events is None else events)

    def dispatched(self) -> list[str]:
        """Return the events that are marked as sent."""
        return [row["event_id"] for row in self.rows() if row["dispatched_at"]]

    def publisher(
        self, endpoint: str | None = None, read_seconds: float = 30.0
    ) -> QueueClient | EventBusPublisher:
        """Return the lane's publisher, through `endpoint`, with calls bounded by `read_seconds`."""
        settings = self.through(endpoint)
        if self.lane is DOMAIN_EVENT:
            events = client("events", settings, read_seconds=read_seconds)
            return EventBusPublisher(events, settings.require("event_bus_name"))
        sqs = client("sqs", settings, read_seconds=read_seconds)
        return QueueClient(sqs, settings.require("document_registration_queue_url"))

    def through(self, endpoint: str | None) -> Settings:
        """Return the settings as of an account that is reached through `endpoint`."""
        if endpoint is None:
            return self.settings
        here, queue = str(self.settings.aws_endpoint_url), "document_registration_queue_url"
        moved = self.settings.require(queue).replace(here, endpoint)
        return self.settings.model_copy(update={"aws_endpoint_url": endpoint, queue: moved})

    def run(
        self, publisher: Publisher, *, budget_seconds: float = 45.0, rows: int = 500
    ) -> RelayRun:
        """Run the relay once."""
        return run_relay(
            self.lane,
            database=self.database,
            publisher=publisher,
            telemetry=self.telemetry,
            limits=DrainLimits(rows=rows, attempts=REFUSALS_THAT_PARK, pause_seconds=PAUSE_SECONDS),
            budget_seconds=budget_seconds,
        )

    def until_due(self, count: int) -> None:
        """Return once `count` rows are due: nothing but time brings that about."""
        query = (
            f"SELECT count(*) FROM {self.lane.outbox.table} WHERE event_type = %s "  # noqa: S608
            "AND dispatched_at IS NULL AND parked_at IS NULL AND next_attempt_at <= now()"
        )
        until(lambda: self.world.one(query, str(self.lane.event_type)) == count)

    def until_calm(self, *, rows: int = 500) -> None:
        """Run a relay again and again until nothing is pending; nobody touches a row."""
        publisher = self.publisher()

        def calm() -> bool:
            assert self.run(publisher, rows=rows).outage is None
            return self.world.pending(self.lane.event_type) == 0

        until(calm, 30)

    def measure(self, copies: int) -> Measured:
        """Take everything off the destination and close the ledger.

        Args:
            copies: how many messages must arrive before the queue is taken for empty; more are
                counted where more are there.
        """
        sqs = client("sqs", self.settings)

        def take() -> int:
            answer = sqs.receive_message(QueueUrl=self.queue_url, MaxNumberOfMessages=10)
            found = answer.get("Messages", [])
            for message in found:
                sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=message["ReceiptHandle"])
                body = json.loads(message["Body"])
                self.arrived[body.get("detail", body)["event_id"]] += 1
            return len(found)

        until(lambda: take() == 0 and self.arrived.total() >= copies, 20)
        assert set(self.arrived) <= set(self.produced), "an event that nobody produced"
        rows = self.rows()
        assert all(bool(row["dispatched_at"]) != bool(row["parked_at"]) for row in rows)
        return Measured(
            rows=len(rows),
            lost=len(set(self.produced) - set(self.arrived)),
            parked=sum(row["parked_at"] is not None for row in rows),
            tries=sum(row["attempts"] for row in rows),
            duplicates=self.arrived.total() - len(self.arrived),
        )


class Interrupted:
    """A publisher that lets something happen once a batch was accepted and is not yet marked."""

    def __init__(self, inner: Publisher, batch: int, happen: Callable[[], object]) -> None:
        """Make `happen` happen after the `batch`-th send."""
        self._inner = inner
        self._left = batch
        self._happen = happen

    @property
    def destination(self) -> str:
        return self._inner.destination

    def verify(self) -> None:
        self._inner.verify()

    def send(self, messages: Sequence[OutboundMessage], *, deadline: float) -> list[SendResult]:
        results = self._inner.send(messages, deadline=deadline)
        self._left -= 1
        if self._left == 0:
            self._happen()
        return results
