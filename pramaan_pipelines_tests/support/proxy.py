"""A proxy before the emulator that holds one operation, or answers it in the emulator's place.

It holds at the protocol: the process under test waits for an answer, as for a slow network.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import TypeVar
from urllib.parse import urlsplit

HOLD_SECONDS = 120.0


class Hold:
    """One operation to be held.

    Attributes:
        operation: the action's name, such as `DeleteMessage`.
        forward_first: True holds the answer, so that the service has done it; False the request,
            which then never gets there.
        reached: set when something is held.
        released: set to let it go.
    """

    def __init__(self, operation: str, *, forward_first: bool) -> None:
        self.operation = operation
        self.forward_first = forward_first
        self.reached = Event()
        self.released = Event()

    def wait(self) -> None:
        """Say that something is held, and hold it."""
        self.reached.set()
        self.released.wait(HOLD_SECONDS)


class HoldingProxy:
    """Forwards everything to the emulator but what is held."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        self._hold: Hold | None = None
        self._instead: dict[str, Callable[[bytes], tuple[int, object]]] = {}
        self.url = ""

    @contextmanager
    def holding(self, operation: str, *, forward_first: bool) -> Iterator[Hold]:
        """Hold every `operation` while the block runs."""
        self._hold = hold = Hold(operation, forward_first=forward_first)
        try:
            yield hold
        finally:
            self._hold = None
            hold.released.set()

    @contextmanager
    def answering(
        self, operation: str, answer: Callable[[bytes], tuple[int, object]]
    ) -> Iterator[None]:
        """Answer every `operation` with a status and a JSON value while the block runs."""
        self._instead[operation] = answer
        try:
            yield
        finally:
            del self._instead[operation]

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> "Answer":
        """Forward one request, held where it should be.

        Raises:
            ConnectionAbortedError: the request was held and is given up.
        """
        hold, operation = self._hold, headers.get("X-Amz-Target", "").split(".")[-1]
        held = hold is not None and hold.operation == operation
        if operation in self._instead:
            status, value = self._instead[operation](body)
            json_type = ("Content-Type", "application/x-amz-json-1.0")
            return status, [json_type], json.dumps(value).encode()
        if hold is not None and held and not hold.forward_first:
            hold.wait()
            raise ConnectionAbortedError
        upstream = HTTPConnection(self._upstream.hostname or "", self._upstream.port or 0)
        upstream.request(method, path, body, headers)
        response = upstream.getresponse()
        content = response.read()
        upstream.close()
        if hold is not None and held and hold.forward_first and _holds_something(content):
            hold.wait()
        return response.status, response.getheaders(), content


Answer = tuple[int, list[tuple[str, str]], bytes]


@contextmanager
def holding_proxy(upstream: str) -> Iterator[HoldingProxy]:
    """Run a proxy in front of `upstream` while the block runs."""
    with serving(HoldingProxy(upstream)) as proxy:
        yield proxy


ProxyT = TypeVar("ProxyT", bound=HoldingProxy)


@contextmanager
def serving(proxy: ProxyT) -> Iterator[ProxyT]:
    """Let `proxy` answer on its `url` while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy.answer))
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(
    answer: Callable[[str, str, dict[str, str], bytes], Answer],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            try:
                status, headers, content = answer(self.command, self.path, dict(self.headers), body)
                self.send_response(status)
                for name, value in headers:
                    if name.lower() in ("content-type", "x-amzn-requestid"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except ConnectionError:
                self.close_connection = True  # The one who asked was killed; that is the test.

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _holds_something(content: bytes) -> bool:
    return bool(json.loads(content).get("Messages"))
