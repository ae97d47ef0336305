"""A tiny HTTP server that speaks the JSON protocol of SQS and EventBridge, and fails on demand.

The faults that the emulator never shows (partial failure, an entry in neither list, throttling, a
500, a reset, a hang) come from here over a real socket, through botocore.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Request = dict[str, Any]
Reply = tuple[int, Any]
Behaviour = Callable[[Request], Reply]


def accept(request: Request) -> Reply:
    """Answer as the service does when all goes well."""
    entries = request["Entries"]
    if entries and "Id" in entries[0]:
        return 200, {"Successful": [{"Id": e["Id"], "MessageId": "m" + e["Id"]} for e in entries]}
    return 200, {
        "FailedEntryCount": 0,
        "Entries": [{"EventId": f"e{n}"} for n in range(len(entries))],
    }


def error(status: int, code: str, message: str = "told by the stub") -> Reply:
    return status, {"__type": f"com.amazonaws.sqs#{code}", "message": message}


def bodies(request: Request) -> list[str]:
    return [e.get("MessageBody") or e.get("Detail") for e in request["Entries"]]


class Reset(Exception):  # noqa: N818 - not an error, a behaviour
    """Raised by a behaviour: the connection is reset without an answer."""


@dataclass
class Stub:
    """What the server does, and what it has seen."""

    endpoint_url: str = ""
    behaviour: Behaviour = accept
    bus_is_there: bool = True
    requests: list[Request] = field(default_factory=list)
    peak: int = 0
    _busy: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, request: Request) -> Reply:
        if request.keys() == {"Name"} and self.bus_is_there:
            # The look for the bus after each send is no call that a test counts.
            return 200, {"Name": request["Name"], "Arn": "arn:aws:events:::event-bus/stub"}
        with self._lock:
            self.requests.append(request)
            self._busy += 1
            self.peak = max(self.peak, self._busy)
        try:
            return self.behaviour(request)
        finally:
            with self._lock:
                self._busy -= 1


@contextmanager
def stub_server() -> Iterator[Stub]:
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65536

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            request = json.loads(self.rfile.read(length))
            try:
                status, body = stub.answer(request)
            except Reset:
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.close_connection = True
                return
            out = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(out)))
            self.end_headers()
            self.wfile.write(out)
            self.wfile.flush()

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """A client that has timed out and gone is part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    stub.endpoint_url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def slowly(seconds: float) -> Behaviour:
    def behaviour(request: Request) -> Reply:
        time.sleep(seconds)
        return accept(request)

    return behaviour
