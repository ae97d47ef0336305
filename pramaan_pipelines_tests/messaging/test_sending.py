"""Sending through both publishers: whose fault a failure is, over a real socket."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.errors import DestinationError, SettingsError
from pramaan_pipelines.messaging import clients
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.eventbridge import EventBusPublisher
from pramaan_pipelines.messaging.publisher import (
    Publisher,
    SendResult,
    SendStatus,
)
from pramaan_pipelines.messaging.sqs import DocumentIngestQueueClient, QueueClient
from pramaan_pipelines_tests.messaging.bench import (
    ACCEPTED,
    IMPOSSIBLE,
    QUEUE_URL,
    REFUSED,
    TRACE,
    UNAVAILABLE,
    message,
    numbered,
    soon,
    statuses,
)
from pramaan_pipelines_tests.support.aws import free_port, settings_for
from pramaan_pipelines_tests.support.stub import (
    Reply,
    Request,
    Reset,
    Stub,
    accept,
    bodies,
    error,
    slowly,
)

pytestmark = pytest.mark.usefixtures("one_attempt")


def test_all_is_sent_in_calls_of_ten_and_answered_in_order(
    publisher: Publisher, stub: Stub
) -> None:
    def by_body(request: Request) -> Reply:
        ids = [f"for {body}" for body in bodies(request)]
        entries = request["Entries"]
        return 200, {
            "Successful": [
                {"Id": e.get("Id"), "MessageId": i} for e, i in zip(entries, ids, strict=True)
            ][::-1],
            "Entries": [{"EventId": i} for i in ids],
        }

    stub.behaviour = by_body
    messages = numbered(37)
    results = publisher.send(messages, deadline=soon())
    assert [r.message_id for r in results] == [f"for {m.body}" for m in messages]
    assert sorted(len(bodies(r)) for r in stub.requests) == [7, 10, 10, 10]


def test_nothing_to_send_makes_no_call(publisher: Publisher, stub: Stub) -> None:
    assert publisher.send([], deadline=soon()) == []
    assert stub.requests == []


def test_the_trace_and_type_travel_beside_the_body_which_is_untouched(
    queue: QueueClient, stub: Stub
) -> None:
    bad = TraceContext("not a trace", "\x00")
    queue.send(
        [message('{"a":  1}'), message("{}", bad), message("{}", TraceContext())], deadline=soon()
    )
    first, second, third = stub.requests[0]["Entries"]
    assert first["MessageBody"] == '{"a":  1}'
    assert first["MessageAttributes"] == {
        "event_type": {"DataType": "String", "StringValue": "document.ingest.requested"},
        "traceparent": {"DataType": "String", "StringValue": TRACE.traceparent},
        "tracestate": {"DataType": "String", "StringValue": TRACE.tracestate},
    }
    assert second["MessageAttributes"].keys() == {"event_type"} == third["MessageAttributes"].keys()


def test_a_bus_entry_is_source_type_detail_and_bus(bus: EventBusPublisher, stub: Stub) -> None:
    bus.send([message('{"a":  1}')], deadline=soon())
    assert stub.requests[0]["Entries"] == [
        {
            "Source": "pramaan",
            "DetailType": "document.ingest.requested",
            "Detail": '{"a":  1}',
            "EventBusName": "pramaan-events",
        }
    ]


# ---- what is found without a call ----------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"a": "x" * 300_000}),
        json.dumps({"a": "é" * 140_000}, ensure_ascii=False),
        '{"a": "\x0b"}',
        '{"a": "\x00"}',
        '{"a": "\ud800"}',
        '{"a": "\uffff"}',
        "",
    ],
    ids=["300 kB", "bytes, not characters", "VT", "NUL", "surrogate", "U+FFFF", "empty"],
)
def test_the_impossible_is_not_sent_and_its_neighbours_are(
    publisher: Publisher, stub: Stub, body: str
) -> None:
    results = publisher.send([*numbered(2), message(body), *numbered(1)], deadline=soon())
    assert statuses(results) == [ACCEPTED, ACCEPTED, IMPOSSIBLE, ACCEPTED]
    assert [len(bodies(r)) for r in stub.requests] == [3]
    assert results[2].detail
    assert "xxx" not in results[2].detail


def test_the_budget_is_met_to_the_byte(queue: QueueClient, bus: EventBusPublisher) -> None:
    for publisher, beside, most in (
        (queue, len("event_typeString" + "document.ingest.requested"), 262_144),
        (bus, len("pramaan" + "document.ingest.requested"), 262_143),
    ):
        room = most - beside - len('{"a":""}')
        for extra, status in ((0, ACCEPTED), (1, IMPOSSIBLE)):
            body = message('{"a":"' + "x" * (room + extra) + '"}', TraceContext())
            assert statuses(publisher.send([body], deadline=soon())) == [status]


def test_calls_are_cut_by_bytes(queue: QueueClient, bus: EventBusPublisher, stub: Stub) -> None:
    large = [message('{"a":"' + "x" * 200_000 + '"}') for _ in range(10)]
    assert statuses(queue.send(large, deadline=soon())) == [ACCEPTED] * 10
    assert [len(bodies(r)) for r in stub.requests] == [5, 5]
    stub.requests.clear()
    assert statuses(bus.send(large, deadline=soon())) == [ACCEPTED] * 10
    assert [len(bodies(r)) for r in stub.requests] == [1] * 10


@pytest.mark.parametrize("body", ["[]", "text", '{"a": NaN}', "{"])
def test_the_bus_takes_only_json_objects(bus: EventBusPublisher, stub: Stub, body: str) -> None:
    assert statuses(bus.send([message(body)], deadline=soon())) == [IMPOSSIBLE]
    assert stub.requests == []


# ---- the answer, entry by entry --------------------------------------------------------------

ENTRY_CODES = [
    ("InvalidMessageContents", True, IMPOSSIBLE),
    ("InternalError", False, UNAVAILABLE),
    ("RequestThrottled", True, UNAVAILABLE),
    ("AWS.SimpleQueueService.OverLimit", True, UNAVAILABLE),
    ("KmsThrottled", True, UNAVAILABLE),
    ("KMS.DisabledException", True, UNAVAILABLE),
    ("AccessDenied", True, UNAVAILABLE),
    ("SomethingNew", True, REFUSED),
    ("SomethingNew", False, UNAVAILABLE),
]


@pytest.mark.parametrize(("code", "sender_fault", "status"), ENTRY_CODES)
def test_a_failed_queue_entry_is_told_by_its_code(
    queue: QueueClient,
    stub: Stub,
    code: str,
    sender_fault: bool,  # noqa: FBT001
    status: SendStatus,
) -> None:
    failed = {"Id": "1", "Code": code, "SenderFault": sender_fault, "Message": "why\x00 not"}
    stub.behaviour = lambda _: (
        200,
        {"Successful": [{"Id": "2", "MessageId": "m2"}], "Failed": [failed]},
    )
    results = queue.send(numbered(3), deadline=soon())
    assert statuses(results) == [UNAVAILABLE, status, ACCEPTED]
    assert results[0].detail == "not named in the answer"
    assert results[1].detail == f"{code.removeprefix('AWS.SimpleQueueService.')}: why not"
    assert results[2] == SendResult(ACCEPTED, None, "m2")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("InternalFailure", UNAVAILABLE),
        ("ThrottlingException", UNAVAILABLE),
        ("AccessDeniedException", UNAVAILABLE),
        ("NotAuthorizedForSourceException", UNAVAILABLE),
        ("MalformedDetail", IMPOSSIBLE),
        ("InvalidArgument", REFUSED),
    ],
)
def test_a_failed_bus_entry_is_told_by_its_code(
    bus: EventBusPublisher, stub: Stub, code: str, status: SendStatus
) -> None:
    stub.behaviour = lambda _: (
        200,
        # The count lies; each entry is read all the same. The fourth is not there.
        {"FailedEntryCount": 0, "Entries": [{"EventId": "e0"}, {"ErrorCode": code}, {}]},
    )
    results = bus.send(numbered(4), deadline=soon())
    assert statuses(results) == [ACCEPTED, status, UNAVAILABLE, UNAVAILABLE]
    assert results[3].detail == "not named in the answer"


def test_an_entry_in_both_lists_is_not_accepted(queue: QueueClient, stub: Stub) -> None:
    stub.behaviour = lambda _: (
        200,
        {
            "Successful": [{"Id": "0", "MessageId": "m"}, {"Id": "9", "MessageId": "stranger"}],
            "Failed": [{"Id": "0", "Code": "InternalError", "SenderFault": False}],
        },
    )
    assert statuses(queue.send(numbered(1), deadline=soon())) == [UNAVAILABLE]


# ---- the whole call --------------------------------------------------------------------------

OUTAGES: list[tuple[str, Reply]] = [
    ("500", error(500, "InternalFailure")),
    ("503", (503, b"<html>try later</html>")),
    ("500 unnamed", (500, b"")),
    ("throttled", error(400, "ThrottlingException")),
    ("request throttled", error(403, "RequestThrottled")),
    ("expired token", error(400, "ExpiredTokenException")),
    ("bad token", error(403, "InvalidClientTokenId")),
    ("denied", error(400, "AccessDeniedException")),
    ("signature", error(403, "SignatureDoesNotMatch")),
    ("no queue", error(400, "QueueDoesNotExist")),
    ("no queue, by its old name", error(400, "AWS.SimpleQueueService.NonExistentQueue")),
    ("no bus", error(400, "ResourceNotFoundException")),
    ("kms", error(400, "KmsAccessDenied")),
    ("404 of a proxy", (404, b"no such page")),
    ("429", (429, b"")),
    ("200 of a proxy", (200, b"<html>welcome</html>")),
    ("a list", (200, b"[]")),
    ("not UTF-8", (200, b"\xff\xfe")),
    ("null lists", (200, {"Successful": None, "Failed": None, "Entries": None})),
]


@pytest.mark.parametrize("reply", [r for _, r in OUTAGES], ids=[name for name, _ in OUTAGES])
def test_an_outage_is_nobody_s_fault(publisher: Publisher, stub: Stub, reply: Reply) -> None:
    stub.behaviour = lambda _: reply
    results = publisher.send(numbered(12), deadline=soon())
    assert statuses(results) == [UNAVAILABLE] * 12
    assert all(result.detail for result in results)
    assert len(stub.requests) == 2  # it is not asked again for each message


def test_an_outage_of_one_call_is_not_told_of_the_others(publisher: Publisher, stub: Stub) -> None:
    def second_fails(request: Request) -> Reply:
        return error(500, "InternalFailure") if '{"n": 10}' in bodies(request) else accept(request)

    stub.behaviour = second_fails
    results = publisher.send(numbered(30), deadline=soon())
    assert statuses(results) == [ACCEPTED] * 10 + [UNAVAILABLE] * 10 + [ACCEPTED] * 10


def test_a_reset_connection_is_unavailable(publisher: Publisher, stub: Stub) -> None:
    def reset(_: Request) -> Reply:
        raise Reset

    stub.behaviour = reset
    assert statuses(publisher.send(numbered(1), deadline=soon())) == [UNAVAILABLE]


def test_a_hanging_service_is_unavailable_within_the_time_out(stub: Stub) -> None:
    stub.behaviour = slowly(3)
    queue = QueueClient(client("sqs", settings_for(stub.endpoint_url), read_seconds=0.3), QUEUE_URL)
    started = time.monotonic()
    results = queue.send(numbered(20), deadline=soon())
    assert time.monotonic() - started < 2
    assert statuses(results) == [UNAVAILABLE] * 20
    assert "ReadTimeoutError" in str(results[0].detail)


def test_a_refused_connection_is_unavailable() -> None:
    settings = settings_for(f"http://127.0.0.1:{free_port()}")
    queue = QueueClient(client("sqs", settings), QUEUE_URL)
    assert statuses(queue.send(numbered(1), deadline=soon())) == [UNAVAILABLE]


def test_missing_credentials_are_unavailable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stub: Stub
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    bare = QueueClient(client("sqs", settings_for(stub.endpoint_url)), QUEUE_URL)
    results = bare.send(numbered(1), deadline=soon())
    assert statuses(results) == [UNAVAILABLE]
    assert "NoCredentialsError" in str(results[0].detail)


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (error(400, "InvalidMessageContents"), IMPOSSIBLE),
        (error(400, "BatchRequestTooLong"), IMPOSSIBLE),
        (
            error(
                400, "InvalidParameterValue", "Reason: Message must be shorter than 262144 bytes."
            ),
            IMPOSSIBLE,
        ),
        (
            error(400, "ValidationException", "Total size of the entries is over the limit."),
            IMPOSSIBLE,
        ),
        (error(400, "ValidationException", "something else"), REFUSED),
        (error(400, "SomethingNew"), REFUSED),
    ],
)
def test_a_call_refused_for_one_message_does_not_blame_its_neighbours(
    publisher: Publisher, stub: Stub, reply: Reply, status: SendStatus
) -> None:
    guilty = '{"n": 3}'
    stub.behaviour = lambda request: reply if guilty in bodies(request) else accept(request)
    results = publisher.send(numbered(6), deadline=soon())
    assert statuses(results) == [ACCEPTED] * 3 + [status] + [ACCEPTED] * 2
    assert [len(bodies(r)) for r in stub.requests] == [6, 1, 1, 1, 1, 1, 1]


def test_a_call_too_long_as_a_whole_is_sent_one_by_one(publisher: Publisher, stub: Stub) -> None:
    def whole_too_long(request: Request) -> Reply:
        return accept(request) if len(bodies(request)) == 1 else error(400, "BatchRequestTooLong")

    stub.behaviour = whole_too_long
    assert statuses(publisher.send(numbered(4), deadline=soon())) == [ACCEPTED] * 4


def test_what_a_service_says_is_made_safe(queue: QueueClient, stub: Stub) -> None:
    stub.behaviour = lambda _: error(
        400, "SomethingNew", "Signature=" + "ab" * 32 + "\x00\ud800 " + "long " * 1000
    )
    (result,) = queue.send(numbered(1), deadline=soon())
    assert result.detail
    assert "abab" not in result.detail
    assert len(result.detail) <= 600
    assert result.detail.encode().count(b"\x00") == 0


# ---- the destination -------------------------------------------------------------------------


def test_verify_tells_an_outage(publisher: Publisher, stub: Stub) -> None:
    stub.bus_is_there = False
    for reply in (error(500, "InternalFailure"), (200, b"<html>"), (200, b"[]")):
        stub.behaviour = lambda _, reply=reply: reply  # type: ignore[misc]
        with pytest.raises(DestinationError, match=publisher.destination):
            publisher.verify()


def test_names_are_safe_to_show(queue: QueueClient, bus: EventBusPublisher) -> None:
    assert queue.destination == "pramaan-documents-ingestion-test"
    assert bus.destination == "pramaan-events"


def test_clients_come_from_their_own_settings() -> None:
    settings = settings_for(
        "http://127.0.0.1:1",
        document_ingestion_queue_url="http://x/1/ingest",
        document_registration_queue_url="http://x/1/register",
        event_bus_name="bus",
    )
    assert DocumentIngestQueueClient.from_settings(settings).destination == "ingest"
    register = DocumentIngestQueueClient.from_registration_settings(settings)
    assert register.destination == "register"
    assert isinstance(register, DocumentIngestQueueClient)
    assert EventBusPublisher.from_settings(settings).destination == "bus"
    nothing = settings_for("http://127.0.0.1:1")
    for factory, name in (
        (DocumentIngestQueueClient.from_settings, "DOCUMENT_INGESTION_QUEUE_URL"),
        (DocumentIngestQueueClient.from_registration_settings, "DOCUMENT_REGISTRATION_QUEUE_URL"),
        (EventBusPublisher.from_settings, "EVENT_BUS_NAME"),
    ):
        with pytest.raises(SettingsError, match=name):
            factory(nothing)


def test_the_client_is_bounded_and_regional(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    made = client("sqs", settings_for("http://127.0.0.1:1", aws_region="eu-west-1"))
    config: Any = made.meta.config
    assert made.meta.region_name == "eu-west-1"
    assert (config.connect_timeout, config.read_timeout) == (3, 5)
    assert config.retries == {"total_max_attempts": 2, "mode": "standard"}
    assert config.max_pool_connections >= clients.SENDING_THREADS
