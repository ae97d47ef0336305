"""A TCP proxy that stops at one message, so that a process is killed exactly there.

It knows no protocol, only the bytes that the message holds; so it stands before AWS and Postgres.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread


class Gate:
    """Passes everything on until `mark` has come for the `nth` time.

    Attributes:
        port: where it listens.
        reached: set when the message is held, or, with `forward`, when its answer is.
    """

    def __init__(self, upstream: tuple[str, int], mark: bytes, *, nth: int, forward: bool) -> None:
        """Listen before `upstream`.

        Args:
            upstream: host and port.
            mark: what the message holds.
            nth: which of the messages with the mark.
            forward: True passes the message on and holds its answer; False holds the message.
        """
        self._upstream = upstream
        self._mark = mark
        self._left = nth
        self._forward = forward
        self._lock = Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.reached = Event()

    def serve(self) -> None:
        """Serve until closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._upstream)
                held = Event()
                for pump in (self._requests, self._answers):
                    Thread(target=pump, args=(client, server, held), daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _requests(self, client: socket.socket, server: socket.socket, held: Event) -> None:
        with suppress(OSError):
            while chunk := client.recv(65536):
                if not held.is_set() and self._is_it(chunk):
                    held.set()
                    if not self._forward:
                        self.reached.set()
                if self._forward or not held.is_set():
                    server.sendall(chunk)
        _end(client, server)

    def _answers(self, client: socket.socket, server: socket.socket, held: Event) -> None:
        with suppress(OSError):
            while chunk := server.recv(65536):
                if held.is_set():
                    self.reached.set()
                else:
                    client.sendall(chunk)
        _end(client, server)

    def _is_it(self, chunk: bytes) -> bool:
        with self._lock:
            self._left -= self._mark in chunk
            return self._left == 0 and self._mark in chunk


@contextmanager
def gate(upstream: tuple[str, int], mark: bytes, *, nth: int, forward: bool) -> Iterator[Gate]:
    """Run a gate while the block runs."""
    running = Gate(upstream, mark, nth=nth, forward=forward)
    thread = Thread(target=running.serve)
    thread.start()
    try:
        yield running
    finally:
        running.close()
        thread.join()


def _end(*ends: socket.socket) -> None:
    """Close both ends: whoever is left on one side must see that the other is gone."""
    for one in ends:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
