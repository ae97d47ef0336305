"""Sending to an EventBridge bus.

Promises: PutEvents, its answer read by position; what the service would take and then lose (a
Detail that is not a JSON object) is found before the call, and a missing bus by `verify` before
the first call and again after each send.
Never: makes or changes a body. The trace travels inside it; X-Ray's header goes beside it where
OTEL_PROPAGATORS names `xray`, for the services on the way.

Source: https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Self

from botocore.exceptions import ClientError

from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.messaging.batching import (
    EVENTBRIDGE_LIMITS,
    event_entry_bytes,
    is_json_object,
)
from pramaan_pipelines.messaging.clients import SENDING_THREADS, client
from pramaan_pipelines.messaging.faults import CALL_ERRORS, describe, entry_fault, error_codes
from pramaan_pipelines.messaging.publisher import OutboundMessage, SendResult, SendStatus
from pramaan_pipelines.messaging.sending import NOT_NAMED, BatchPublisher
from pramaan_pipelines.messaging.verification import route_problems
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.telemetry.propagation import xray_header

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_events.type_defs import (
        PutEventsRequestEntryTypeDef,
        PutEventsResponseTypeDef,
        PutEventsResultEntryTypeDef,
    )

SOURCE: Final = "pramaan"
MISSING: Final = "ResourceNotFoundException"
GONE: Final = SendResult(SendStatus.UNAVAILABLE, "the bus was gone after the call")


class EventBusPublisher(BatchPublisher["PutEventsResponseTypeDef"]):
    """One bus that events are put on; a `Publisher`."""

    limits = EVENTBRIDGE_LIMITS

    def __init__(
        self,
        client: "EventBridgeClient",
        bus_name: str,
        *,
        threads: int = SENDING_THREADS,
        route_problems: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Put events on the bus `bus_name`.

        Args:
            client: from `clients.client`; shared between the threads.
            bus_name: the bus's name or ARN.
            threads: calls under way at once.
            route_problems: tells what keeps events from getting from the bus to their queue.
        """
        super().__init__(threads=threads)
        self._route_problems = route_problems
        self._client = client
        self._bus_name = bus_name

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return a publisher to the environment's bus.

        Raises:
            SettingsError: EVENT_BUS_NAME is not set.
        """
        return cls(
            client("events", settings),
            settings.require("event_bus_name"),
            route_problems=lambda: route_problems(settings),
        )

    @property
    def destination(self) -> str:
        """The bus's name, safe to show."""
        return self._bus_name.rsplit("/", 1)[-1]

    def verify(self) -> None:
        """Check that the bus exists, and that its rule takes the events to their queue.

        PutEvents does not: it answers success for any bus, and for an event that no rule takes.

        Raises:
            DestinationError: the bus is missing or cannot be reached, or leads nowhere.
        """
        try:
            # An answer without an ARN comes from something that is not EventBridge.
            self._client.describe_event_bus(Name=self._bus_name)["Arn"]
        except CALL_ERRORS as error:
            raise DestinationError(
                f"Bus {self.destination}: {describe(error)}. Check EVENT_BUS_NAME, the region and "
                "the credentials in the environment, and that its stack is provisioned."
            ) from None

        problems = self._route_problems()
        if problems:
            raise DestinationError(
                f"Bus {self.destination} leads nowhere, and what is put on it would be lost: "
                f"{'; '.join(problems)}. Provision its stack again, or enable the rule."
            )

    def send(self, messages: Sequence[OutboundMessage], *, deadline: float) -> list[SendResult]:
        """Send all `messages`, then look once more that the bus is there.

        A bus deleted in between has answered success for events that are gone: none of them counts
        as accepted.
        """
        results = super().send(messages, deadline=deadline)
        accepted = any(result.status is SendStatus.ACCEPTED for result in results)
        if accepted and self._is_missing():
            return [GONE if result.status is SendStatus.ACCEPTED else result for result in results]
        return results

    def _is_missing(self) -> bool:
        try:
            self._client.describe_event_bus(Name=self._bus_name)
        except CALL_ERRORS as error:
            # Any other fault says nothing of the bus, and what was accepted stays accepted.
            return isinstance(error, ClientError) and MISSING in error_codes(error)
        return False

    def _problem(self, message: OutboundMessage, size: int) -> SendResult | None:
        problem = super()._problem(message, size)
        if problem is None and not is_json_object(message.body):
            return SendResult(SendStatus.IMPOSSIBLE, "the body is not a JSON object")
        return problem

    def _size(self, message: OutboundMessage) -> int:
        return event_entry_bytes(source=SOURCE, detail_type=message.event_type, detail=message.body)

    def _ask(self, messages: Sequence[OutboundMessage]) -> "PutEventsResponseTypeDef":
        return self._client.put_events(Entries=[self._entry(message) for message in messages])

    def _entry(self, message: OutboundMessage) -> "PutEventsRequestEntryTypeDef":
        entry: PutEventsRequestEntryTypeDef = {
            "Source": SOURCE,
            "DetailType": message.event_type,
            "Detail": message.body,
            "EventBusName": self._bus_name,
        }
        header = xray_header(message.trace)
        if header is not None:
            entry["TraceHeader"] = header
        return entry

    def _read(self, answer: "PutEventsResponseTypeDef", count: int) -> list[SendResult]:
        results = [_result(entry) for entry in answer.get("Entries", ())][:count]
        return results + [NOT_NAMED] * (count - len(results))


def _result(entry: "PutEventsResultEntryTypeDef") -> SendResult:
    if entry.get("ErrorCode"):
        return entry_fault(entry["ErrorCode"], entry.get("ErrorMessage"), sender_fault=True)
    if entry.get("EventId"):
        return SendResult(SendStatus.ACCEPTED, message_id=entry["EventId"])
    # FailedEntryCount is not consulted: only an id proves that this very entry was taken.
    return NOT_NAMED
