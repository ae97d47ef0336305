"""A TCP line to a service, which can be cut and mended, or go silent."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread


class Line:
    """Passes bytes on while it is whole.

    Attributes:
        port: where it listens.
    """

    def __init__(self, upstream: tuple[str, int], *, whole: bool) -> None:
        self._upstream = upstream
        self._whole = whole
        self._lock = Lock()
        self._open: list[socket.socket] = []
        self._over = Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self.port: int = self._listener.getsockname()[1]

    def mend(self) -> None:
        """Let connections through."""
        self._whole = True

    def cut(self) -> None:
        """End every connection, and each new one at once."""
        self._whole = False
        with self._lock:
            ends, self._open = self._open, []
        _close(*ends)

    def serve(self) -> None:
        """Serve until closed."""
        while not self._over.is_set():
            with suppress(TimeoutError):
                client, _ = self._listener.accept()
                if not self._whole:
                    _close(client)
                    continue
                server = socket.create_connection(self._upstream)
                with self._lock:
                    self._open += [client, server]
                for ends in ((client, server), (server, client)):
                    Thread(target=_pump, args=ends, daemon=True).start()

    def close(self) -> None:
        """End everything."""
        self._over.set()
        self.cut()


@contextmanager
def line(upstream: tuple[str, int], *, whole: bool = True) -> Iterator[Line]:
    """Run a line to `upstream` while the block runs."""
    running = Line(upstream, whole=whole)
    thread = Thread(target=running.serve)
    thread.start()
    try:
        yield running
    finally:
        running.close()
        thread.join()
        running._listener.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(65_536):
            sink.sendall(chunk)
    _close(source, sink)


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
