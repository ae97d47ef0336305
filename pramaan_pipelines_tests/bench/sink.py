"""A stand-in for SQS and EventBridge that answers after a constant time, in a process of its own.

Promises: the real protocol (AWS JSON over HTTP/1.1, keep-alive, the MD5 that the SDKs check); an
answer after the time that was asked for, whatever the load; every body is kept for the ledger.
Never: refuses, throttles or loses: what differs between two contenders is theirs.

It is one asyncio process that leaves the reading of bodies until it is asked for the ledger, and
`ceiling.py` measures what it takes when nothing else does anything.
"""

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from hashlib import md5
from threading import Thread
from typing import Any, Final

HEAD_END: Final = b"\r\n\r\n"


@dataclass
class State:
    """What it does, and what it has seen.

    Attributes:
        delay: seconds from the request to the answer.
        bodies: what was sent, message by message.
        times: when each of them got here, in seconds of `time.time`.
    """

    delay: float = 0.0
    bodies: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def take(self, bodies: list[str]) -> None:
        """Keep what was sent."""
        self.bodies += bodies
        self.times += [time.time()] * len(bodies)


class Connection(asyncio.Protocol):
    """One connection: requests come one after another."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._held = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._held += data
        while (end := self._held.find(HEAD_END)) >= 0:
            head = bytes(self._held[:end])
            start = end + len(HEAD_END)
            size = int(_header(head, b"content-length") or 0)
            if len(self._held) < start + size:
                if _header(head, b"expect") and self._transport is not None:
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            body = bytes(self._held[start : start + size])
            del self._held[: start + size]
            self._answer(_answer(self._state, head, body))

    def _answer(self, text: bytes) -> None:
        assert self._transport is not None
        whole = (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
            b"x-amzn-RequestId: 0\r\nContent-Length: %d\r\n\r\n" % len(text)
        ) + text
        if self._state.delay:
            asyncio.get_running_loop().call_later(self._state.delay, self._transport.write, whole)
        else:
            self._transport.write(whole)


def _header(head: bytes, name: bytes) -> bytes | None:
    at = head.lower().find(b"\r\n" + name + b":")
    if at < 0:
        return None
    return head[at + len(name) + 3 :].split(b"\r\n", 1)[0].strip()


def _answer(state: State, head: bytes, body: bytes) -> bytes:
    operation = (_header(head, b"x-amz-target") or b"").rsplit(b".", 1)[-1]
    request = json.loads(body or b"{}")
    answers: dict[bytes, Any] = {
        b"SendMessage": _send,
        b"SendMessageBatch": _send_batch,
        b"PutEvents": _put_events,
    }
    answer = answers.get(operation, _other)
    return json.dumps(answer(state, request)).encode()


def _send(state: State, request: dict[str, Any]) -> dict[str, Any]:
    state.take([request["MessageBody"]])
    return {"MessageId": "m", "MD5OfMessageBody": _md5(request["MessageBody"])}


def _send_batch(state: State, request: dict[str, Any]) -> dict[str, Any]:
    entries = request["Entries"]
    state.take([entry["MessageBody"] for entry in entries])
    return {
        "Successful": [
            {"Id": e["Id"], "MessageId": "m", "MD5OfMessageBody": _md5(e["MessageBody"])}
            for e in entries
        ],
        "Failed": [],
    }


def _put_events(state: State, request: dict[str, Any]) -> dict[str, Any]:
    entries = request["Entries"]
    state.take([entry["Detail"] for entry in entries])
    return {"FailedEntryCount": 0, "Entries": [{"EventId": "e"} for _ in entries]}


def _other(_state: State, request: dict[str, Any]) -> dict[str, Any]:
    """Be there, and hold nothing to receive."""
    return {
        "Name": request.get("Name", ""),
        "Arn": "arn:aws:events:::event-bus/bench",
        "Attributes": {"QueueArn": "arn:aws:sqs:us-east-1:000000000000:bench"},
    }


def _md5(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def _controlled(state: State) -> None:
    """Obey until the input ends.

    `reset SECONDS` begins anew, `ledger` tells the event ids in order, `times` when each came.
    """
    for line in sys.stdin:
        word, *rest = line.split()
        if word == "reset":
            state.bodies, state.times, state.delay = [], [], float(rest[0])
            _say([])
        elif word == "times":
            _say(state.times)
        else:
            _say([json.loads(body)["event_id"] for body in state.bodies])


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def _serve() -> None:
    state = State()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(state), "127.0.0.1", 0
    )
    control = Thread(target=_controlled, args=(state,), daemon=True)
    control.start()
    _say(server.sockets[0].getsockname()[1])
    await asyncio.to_thread(control.join)


if __name__ == "__main__":
    asyncio.run(_serve())
