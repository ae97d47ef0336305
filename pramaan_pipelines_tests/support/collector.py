"""An OTLP receiver over HTTP, and collectors that are no use to anybody.

It speaks the protocol itself (protobuf over HTTP/1.1), so that what a test finds has crossed a
process and a socket.
"""

import gzip
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Proto

KINDS = {number: name.removeprefix("SPAN_KIND_") for name, number in Proto.SpanKind.items()}


@dataclass(frozen=True)
class Received:
    """One span as it arrived; ids in hex, kind as `CONSUMER`."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    resource: dict[str, Any]
    error: str


@dataclass(frozen=True)
class Point:
    """One data point as it arrived.

    Attributes:
        value: of a count or a gauge; of a histogram, how many were recorded.
        bounds: of a histogram.
        exemplars: the trace ids, in hex.
        is_delta: None for a gauge.
    """

    metric: str
    unit: str
    kind: str
    labels: dict[str, Any]
    value: float
    bounds: tuple[float, ...]
    exemplars: list[str]
    is_delta: bool | None
    resource: dict[str, Any]


@dataclass
class Collector:
    """What has arrived so far.

    Attributes:
        url: what OTEL_EXPORTER_OTLP_ENDPOINT is set to.
        requests: the path and the headers of each request.
    """

    url: str = ""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    _spans: list[Received] = field(default_factory=list)
    _points: list[Point] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def spans(self, name: str | None = None) -> list[Received]:
        """Return the spans, those called `name` where it is given."""
        with self._lock:
            return [span for span in self._spans if name in (None, span.name)]

    def points(self, metric: str | None = None) -> list[Point]:
        """Return the data points, those of `metric` where it is given."""
        with self._lock:
            return [point for point in self._points if metric in (None, point.metric)]

    def environment(self) -> dict[str, str]:
        """Return the variables of a process that exports here."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url}

    def take(self, path: str, headers: dict[str, str], body: bytes) -> bytes:
        """Keep one request; returns the answer's body."""
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        with self._lock:
            self.requests.append((path, headers))
            if path == "/v1/traces":
                self._spans.extend(_spans_of(ExportTraceServiceRequest.FromString(body)))
            else:
                self._points.extend(_points_of(ExportMetricsServiceRequest.FromString(body)))
        return b""


def _values(attributes: Any) -> dict[str, Any]:
    return {
        pair.key: getattr(pair.value, str(pair.value.WhichOneof("value"))) for pair in attributes
    }


def _spans_of(request: Any) -> Iterator[Received]:
    for one in request.resource_spans:
        for scope in one.scope_spans:
            for span in scope.spans:
                yield Received(
                    span.name,
                    KINDS[span.kind],
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    _values(span.attributes),
                    [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                    _values(one.resource.attributes),
                    span.status.message,
                )


def _points_of(request: Any) -> Iterator[Point]:
    for one in request.resource_metrics:
        for scope in one.scope_metrics:
            for metric in scope.metrics:
                kind = str(metric.WhichOneof("data"))
                data = getattr(metric, kind)
                for point in data.data_points:
                    is_histogram = kind == "histogram"
                    yield Point(
                        metric.name,
                        metric.unit,
                        kind,
                        _values(point.attributes),
                        point.count if is_histogram else point.as_int or point.as_double,
                        tuple(point.explicit_bounds) if is_histogram else (),
                        [exemplar.trace_id.hex() for exemplar in point.exemplars],
                        None if kind == "gauge" else data.aggregation_temporality == 1,
                        _values(one.resource.attributes),
                    )


Take = Callable[[str, dict[str, str], bytes], bytes]


@contextmanager
def collector() -> Iterator[Collector]:
    """Run a receiver while the block runs."""
    made = Collector()
    with _serving(made.take) as made.url:
        yield made


@contextmanager
def _serving(take: Take, status: int = 200) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            with suppress(ConnectionError):
                answer = take(self.path, headers, body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.send_header("Retry-After", "3600")
                self.end_headers()
                self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Run a collector that answers everything with `status` and `body`."""
    with _serving(lambda *_: body, status) as url:
        yield url


@contextmanager
def nobody() -> Iterator[str]:
    """Give an address at which connections are refused."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@contextmanager
def black_hole() -> Iterator[str]:
    """Run a server that takes everything and answers nothing."""
    with _swallowing(lambda _connection, _over: None) as url:
        yield url


@contextmanager
def dripping() -> Iterator[str]:
    """Run a server that answers a byte at a time, so that no read ever waits for long."""

    def drip(connection: socket.socket, over: Event) -> None:
        with suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not over.wait(0.05):
                connection.sendall(b".")

    with _swallowing(drip) as url:
        yield url


@contextmanager
def _swallowing(then: Callable[[socket.socket, Event], None]) -> Iterator[str]:
    over, held, threads = Event(), [], []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)

        def accept() -> None:
            while not over.is_set():
                with suppress(TimeoutError):
                    connection, _ = server.accept()
                    held.append(connection)
                    thread = Thread(target=then, args=[connection, over])
                    threads.append(thread)
                    thread.start()

        accepting = Thread(target=accept)
        accepting.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            accepting.join()
            for thread in threads:
                thread.join()
            for connection in held:
                connection.close()
