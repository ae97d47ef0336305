"""Receiving, deleting, handing back and counting; and the road from the bus to the queue."""

import json
import logging
import time
from datetime import UTC, datetime, timedelta

import pytest

from pramaan_pipelines.contracts.envelopes import parse_matter_created
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.messaging import clients
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer, QueueDepth
from pramaan_pipelines.messaging.eventbridge import EventBusPublisher
from pramaan_pipelines.messaging.publisher import OutboundMessage, SendStatus
from pramaan_pipelines.messaging.sqs import DocumentIngestQueueClient, QueueClient
from pramaan_pipelines.messaging.verification import rule_name
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.support.aws import settings_for
from pramaan_pipelines_tests.support.stub import Reply, Request, Stub, error

TRACE = TraceContext("00-" + "a" * 32 + "-" + "b" * 16 + "-01", "vendor=1")
QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/000000000000/framer"
ENVELOPE = {
    "event_id": "0b0e3f5e-6f0c-4c39-8f0e-0c5b7f0a1a2b",
    "event_type": "matter.created",
    "schema_version": 1,
    "environment": "test",
    "firm_id": "1b0e3f5e-6f0c-4c39-8f0e-0c5b7f0a1a2b",
    "subject": {"type": "matter", "id": "2b0e3f5e-6f0c-4c39-8f0e-0c5b7f0a1a2b"},
    "occurred_at": "2026-10-01T09:30:00.123456+00:00",
    "traceparent": TRACE.traceparent,
    "tracestate": TRACE.tracestate,
}


def put(settings: Settings, *texts: str) -> None:
    queue = QueueClient(client("sqs", settings), settings.require("framer_events_queue_url"))
    messages = [OutboundMessage("id", "matter.created", text, TRACE) for text in texts]
    results = queue.send(messages, deadline=time.monotonic() + 30)
    assert {result.status for result in results} == {SendStatus.ACCEPTED}


@pytest.fixture
def consumer(provisioned: Settings) -> QueueConsumer:
    return QueueConsumer.from_settings(provisioned)


def at_stub(stub: Stub) -> QueueConsumer:
    return QueueConsumer(client("sqs", settings_for(stub.endpoint_url)), QUEUE_URL)


def test_what_was_sent_is_received(provisioned: Settings, consumer: QueueConsumer) -> None:
    put(provisioned, "text é 😀")
    (message,) = consumer.receive(10, 0)
    assert message.body == "text é 😀"
    assert message.receive_count == 1
    assert abs(message.sent_at - datetime.now(UTC)) < timedelta(seconds=30)
    assert message.attributes == {
        "event_type": "matter.created",
        "traceparent": TRACE.traceparent,
        "tracestate": TRACE.tracestate,
    }
    assert "text" not in repr(message)
    assert message.receipt_handle not in repr(message)


def test_more_than_ten_take_several_calls(provisioned: Settings, consumer: QueueConsumer) -> None:
    put(provisioned, *[str(n) for n in range(27)])
    assert len(consumer.receive(24, 0)) == 24
    assert len(consumer.receive(24, 0)) == 3
    assert consumer.receive(24, 0) == []


def test_it_waits_for_a_first_message_only(provisioned: Settings, consumer: QueueConsumer) -> None:
    started = time.monotonic()
    assert consumer.receive(10, 1) == []
    assert time.monotonic() - started >= 0.9
    put(provisioned, "one")
    started = time.monotonic()
    assert len(consumer.receive(100, 5)) == 1
    assert time.monotonic() - started < 3


def test_a_second_delete_is_no_error(
    provisioned: Settings, consumer: QueueConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    put(provisioned, "one")
    (message,) = consumer.receive(1, 0)
    with caplog.at_level(logging.INFO):
        assert consumer.delete(message.receipt_handle) is True
        assert caplog.records == []
        assert consumer.delete(message.receipt_handle) is False
    assert [r.levelname for r in caplog.records if "pramaan" in r.name] == ["INFO"]
    assert message.receipt_handle not in caplog.text
    assert consumer.depth() == QueueDepth(0, 0, 0)


def test_handed_back_it_comes_again_and_the_old_receipt_is_stale(
    provisioned: Settings, consumer: QueueConsumer
) -> None:
    put(provisioned, "one")
    (first,) = consumer.receive(1, 0)
    assert consumer.receive(1, 0) == []
    assert consumer.hand_back(first.receipt_handle, 0) is True
    (second,) = consumer.receive(1, 0)
    assert (second.message_id, second.receive_count) == (first.message_id, 2)
    assert consumer.hand_back(first.receipt_handle, 0) is False
    assert consumer.delete(second.receipt_handle) is True


def test_handed_back_with_a_delay_it_waits(provisioned: Settings, consumer: QueueConsumer) -> None:
    put(provisioned, "one")
    (message,) = consumer.receive(1, 0)
    consumer.hand_back(message.receipt_handle, 1)
    assert consumer.receive(1, 0) == []
    assert len(consumer.receive(1, 3)) == 1


def test_after_three_receives_it_is_a_dead_letter(
    provisioned: Settings, consumer: QueueConsumer
) -> None:
    put(provisioned, "one")
    for count in (1, 2, 3):
        (message,) = consumer.receive(1, 0)
        assert message.receive_count == count
        consumer.hand_back(message.receipt_handle, 0)
    assert consumer.receive(1, 0) == []
    assert consumer.depth().total == 0
    assert consumer.dead_letter_depth() == QueueDepth(1, 0, 0)
    dead = consumer.dead_letters()
    assert dead.destination == "pramaan-framer-events-dlq-test"
    assert [m.body for m in dead.receive(1, 0)] == ["one"]


def test_depth_tells_visible_and_in_flight(provisioned: Settings, consumer: QueueConsumer) -> None:
    put(provisioned, "a", "b", "c")
    consumer.receive(1, 0)
    assert consumer.depth() == QueueDepth(visible=2, in_flight=1, delayed=0)
    assert consumer.depth().total == 3


def test_a_queue_without_dead_letters_says_so(provisioned: Settings) -> None:
    sqs = client("sqs", provisioned)
    plain = QueueConsumer(sqs, sqs.create_queue(QueueName="plain")["QueueUrl"])
    with pytest.raises(DestinationError, match="no dead-letter queue"):
        plain.dead_letter_depth()


def test_a_missing_queue_is_told(bare: Settings) -> None:
    missing = QueueConsumer(client("sqs", bare), QUEUE_URL)
    for act in (
        missing.depth,
        missing.dead_letter_depth,
        lambda: missing.receive(1, 0),
        lambda: missing.delete("r"),
        lambda: missing.hand_back("r"),
    ):
        with pytest.raises(DestinationError, match="Queue framer: "):
            act()


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("ReceiptHandleIsInvalid", "The input receipt handle is invalid."),
        ("MessageNotInflight", ""),
        (
            "InvalidParameterValue",
            "Value AQEB for parameter ReceiptHandle is invalid. Reason: The receipt handle has "
            "expired.",
        ),
    ],
)
def test_every_way_to_say_stale_is_tolerated(stub: Stub, code: str, text: str) -> None:
    stub.behaviour = lambda _: error(400, code, text)
    assert at_stub(stub).delete("r") is False
    assert at_stub(stub).hand_back("r", 5) is False


@pytest.mark.parametrize(
    "reply",
    [
        error(400, "InvalidParameterValue", "Value 5 for parameter Wait is invalid."),
        error(403, "AccessDenied"),
        error(500, "InternalFailure"),
    ],
)
def test_any_other_fault_is_raised(
    stub: Stub, reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "ATTEMPTS", 1)
    stub.behaviour = lambda _: reply
    for act in (
        lambda: at_stub(stub).delete("r"),
        lambda: at_stub(stub).hand_back("r"),
        lambda: at_stub(stub).receive(1, 0),
        at_stub(stub).depth,
    ):
        with pytest.raises(DestinationError):
            act()


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"[]", b"\xff", b"{}"])
def test_an_answer_without_numbers_is_never_an_empty_queue(stub: Stub, body: bytes) -> None:
    stub.behaviour = lambda _: (200, body)
    with pytest.raises(DestinationError):
        at_stub(stub).depth()


def test_what_is_held_is_kept_when_a_later_call_fails(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "ATTEMPTS", 1)

    def once(_: Request) -> Reply:
        if len(stub.requests) > 1:
            return error(500, "InternalFailure")
        return 200, {
            "Messages": [
                {
                    "MessageId": "m",
                    "ReceiptHandle": "r",
                    "Body": "b",
                    "Attributes": {
                        "ApproximateReceiveCount": "2",
                        "SentTimestamp": "1790000000123",
                        "AWSTraceHeader": "Root=1-5759e988-bd862e3fe1be46a994272793",
                    },
                }
            ]
        }

    stub.behaviour = once
    (message,) = at_stub(stub).receive(20, 0)
    assert message.sent_at == datetime(2026, 9, 21, 14, 13, 20, 123_000, UTC)
    assert message.trace_header == "Root=1-5759e988-bd862e3fe1be46a994272793"
    assert message.receive_count == 2
    asked = stub.requests[0]
    assert {"ApproximateReceiveCount", "SentTimestamp", "AWSTraceHeader"} <= set(
        asked["MessageSystemAttributeNames"]
    )
    assert asked["MessageAttributeNames"] == ["All"]


# ---- through the emulator, from end to end ---------------------------------------------------


def test_both_document_queues_take_what_is_sent(provisioned: Settings) -> None:
    for factory in (
        DocumentIngestQueueClient.from_settings,
        DocumentIngestQueueClient.from_registration_settings,
    ):
        queue = factory(provisioned)
        queue.verify()
        messages = [OutboundMessage("id", "t", f"body {n}", TRACE) for n in range(25)]
        results = queue.send(messages, deadline=time.monotonic() + 30)
        assert {result.status for result in results} == {SendStatus.ACCEPTED}
        assert len({result.message_id for result in results}) == 25
    consumer = QueueConsumer(
        client("sqs", provisioned), provisioned.require("document_registration_queue_url")
    )
    received = consumer.receive(30, 0)
    assert {m.body for m in received} == {f"body {n}" for n in range(25)}


def test_matter_created_goes_through_the_rule_to_the_framer_s_queue(
    provisioned: Settings, consumer: QueueConsumer
) -> None:
    bus = EventBusPublisher.from_settings(provisioned)
    bus.verify()
    body = json.dumps(ENVELOPE)
    results = bus.send(
        [
            OutboundMessage("id", "matter.created", body, TRACE),
            OutboundMessage("id", "matter.closed", body, TRACE),
        ],
        deadline=time.monotonic() + 30,
    )
    assert [result.status for result in results] == [SendStatus.ACCEPTED] * 2
    (message,) = consumer.receive(10, 5)
    wrapped = json.loads(message.body)
    assert wrapped["detail"] == ENVELOPE
    assert (wrapped["source"], wrapped["detail-type"]) == ("pramaan", "matter.created")
    assert parse_matter_created(message.body).trace == TRACE
    assert consumer.receive(10, 0) == []


def test_a_bus_that_is_not_there_is_found_by_verify_and_after_a_send(provisioned: Settings) -> None:
    bus = EventBusPublisher(client("events", provisioned), "pramaan-events-elsewhere")
    (result,) = bus.send(
        [OutboundMessage("id", "matter.created", "{}", TRACE)], deadline=time.monotonic() + 30
    )
    assert result.status is SendStatus.UNAVAILABLE
    with pytest.raises(DestinationError, match="pramaan-events-elsewhere"):
        bus.verify()


def test_a_queue_that_is_not_there_is_unavailable_and_found_by_verify(bare: Settings) -> None:
    queue = QueueClient(client("sqs", bare), QUEUE_URL)
    (result,) = queue.send(
        [OutboundMessage("id", "t", "{}", TRACE)], deadline=time.monotonic() + 30
    )
    assert result.status is SendStatus.UNAVAILABLE
    with pytest.raises(DestinationError, match="Queue framer: "):
        queue.verify()


def test_a_partial_failure_of_the_emulator_s_bus_is_read(
    provisioned: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pramaan_pipelines.messaging.eventbridge.SOURCE", "aws.ours")
    bus = EventBusPublisher.from_settings(provisioned)
    (result,) = bus.send(
        [OutboundMessage("id", "matter.created", "{}", TRACE)], deadline=time.monotonic() + 30
    )
    assert result.status is SendStatus.UNAVAILABLE
    assert str(result.detail).startswith("NotAuthorizedForSourceException")


def test_a_bus_whose_rule_is_off_is_found_by_verify(provisioned: Settings) -> None:
    """EventBridge answers success for an event that no rule takes, and the event is gone."""
    bus = EventBusPublisher.from_settings(provisioned)
    bus.verify()
    client("events", provisioned).disable_rule(
        Name=rule_name(provisioned.pramaan_environment),
        EventBusName=provisioned.require("event_bus_name"),
    )
    with pytest.raises(DestinationError, match=r"leads nowhere.*is DISABLED"):
        bus.verify()
