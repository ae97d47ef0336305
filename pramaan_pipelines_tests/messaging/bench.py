"""Messages to send, and what is asked of the answers."""

import json
import time
from collections.abc import Sequence

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.messaging.publisher import OutboundMessage, SendResult, SendStatus

ACCEPTED, REFUSED = SendStatus.ACCEPTED, SendStatus.REFUSED
IMPOSSIBLE, UNAVAILABLE = SendStatus.IMPOSSIBLE, SendStatus.UNAVAILABLE
TRACE = TraceContext("00-" + "a" * 32 + "-" + "b" * 16 + "-01", "vendor=1")
QUEUE_URL = "https://sqs.us-east-1.amazonaws.com/000000000000/pramaan-documents-ingestion-test"


def message(body: str, trace: TraceContext = TRACE) -> OutboundMessage:
    return OutboundMessage("id", "document.ingest.requested", body, trace)


def numbered(count: int) -> list[OutboundMessage]:
    return [message(json.dumps({"n": n})) for n in range(count)]


def soon(seconds: float = 30) -> float:
    return time.monotonic() + seconds


def statuses(results: Sequence[SendResult]) -> list[SendStatus]:
    return [result.status for result in results]
