"""The numbers as Prometheus's text, at one address.

Promises: a few connections at once, each with little time; a scrape shows what was seen last and
costs neither the database nor the queues anything.
Never: answers anything but GET /metrics; shows more than numbers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET6, socket
from threading import BoundedSemaphore, Lock, Thread
from typing import Final

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from pramaan_pipelines.errors import SettingsError

Request = socket | tuple[bytes, socket]

CONNECTIONS: Final = 8
SECONDS: Final = 5.0
"""What a connection may keep us waiting."""


class Exposition:
    """A metric reader, and the text that it makes."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._lock = Lock()
        self.reader = PrometheusMetricReader(registry=self._registry, scope_info_enabled=False)

    def text(self) -> bytes:
        """Return every number as it stands."""
        with self._lock:  # The reader mixes what two scrapes at once collect.
            return generate_latest(self._registry)


@contextmanager
def serving(exposition: Exposition, host: str, port: int) -> Iterator[str]:
    """Serve `exposition` while the block runs; gives the address.

    Raises:
        SettingsError: the address cannot be listened at.
    """
    try:
        server = _server(exposition, host, port)
    except OSError as error:
        raise SettingsError(
            f"cannot listen at {host}:{port} ({error.strerror}): give another by --listen"
        ) from None
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()


def _server(exposition: Exposition, host: str, port: int) -> ThreadingHTTPServer:
    places = BoundedSemaphore(CONNECTIONS)

    class Handler(BaseHTTPRequestHandler):
        timeout = SECONDS
        server_version = "pramaan"
        sys_version = ""

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404)
                return
            content = exposition.text()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE_PLAIN_0_0_4)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing: a scrape is no event."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        address_family = AF_INET6 if ":" in host else ThreadingHTTPServer.address_family

        def process_request(self, request: Request, client_address: object) -> None:
            if places.acquire(blocking=False):
                super().process_request(request, client_address)
            else:
                self.shutdown_request(request)

        def process_request_thread(self, request: Request, client_address: object) -> None:
            try:
                super().process_request_thread(request, client_address)
            finally:
                places.release()

        def handle_error(self, *_: object) -> None:
            """Say nothing: whoever asked has gone."""

    return Server((host, port), Handler)
