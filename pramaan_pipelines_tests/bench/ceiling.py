"""What the sink alone takes, so that it is known not to be what is measured."""

import json
import socket
from threading import Thread
from time import perf_counter
from urllib.parse import urlsplit

from pramaan_pipelines_tests.bench.site import Site

CONNECTIONS = 4
SECONDS = 1.0
ENTRIES = 10
BODY = json.dumps({"event_id": "0" * 36, "padding": "x" * 380})


def sink_ceiling(site: Site) -> float:
    """Return the rows a second that the sink answers, in calls of ten made beforehand.

    The callers are threads of this process that neither sign nor read: with a machine of two
    cores, the sink has nearly one of them.
    """
    entries = [{"Id": str(number), "MessageBody": BODY} for number in range(ENTRIES)]
    body = json.dumps({"QueueUrl": "q", "Entries": entries}).encode()
    request = (
        b"POST / HTTP/1.1\r\nHost: sink\r\nX-Amz-Target: AmazonSQS.SendMessageBatch\r\n"
        b"Content-Length: %d\r\n\r\n" % len(body)
    ) + body
    site.sink.ask("reset 0")
    counts = [0] * CONNECTIONS
    parts = urlsplit(site.sink_url)
    until = perf_counter() + SECONDS

    def call(number: int) -> None:
        with socket.create_connection((str(parts.hostname), int(parts.port or 0))) as connection:
            while perf_counter() < until:
                connection.sendall(request)
                answer = b""
                while not answer.endswith(b'"Failed": []}'):
                    answer += connection.recv(65536)
                counts[number] += ENTRIES

    threads = [Thread(target=call, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS
