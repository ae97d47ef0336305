"""microburst between us and the emulator, in a process of its own, told what to do by its API.

Source: https://github.com/pingedbrain/microburst (rules, control API).
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from typing import Any

from pramaan_pipelines_tests.support.aws import free_port

CALLS = {"sqs": "SendMessageBatch", "events": "PutEvents"}
START_SECONDS = 60.0


class Burst:
    """A running proxy.

    Attributes:
        url: what AWS_ENDPOINT_URL should say.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.url = f"http://127.0.0.1:{port}"

    def break_calls(
        self, service: str, effect: dict[str, Any], *, entries: int | None = None
    ) -> None:
        """Break every sending call to `service`.

        Args:
            service: as its signature names it.
            effect: microburst's.
            entries: only calls with that many entries.
        """
        rule = {"service": service, "operation": CALLS[service], **effect}
        if entries is not None:
            rule["body"] = f"length(Entries) == `{entries}`"
        self._ask("POST", "rules", [rule])

    def break_each_call_once(
        self, service: str, effect: dict[str, Any], entries: list[int]
    ) -> None:
        """Break one sending call of each of these lengths."""
        base = {"service": service, "operation": CALLS[service], "times": 1, **effect}
        rules = [{**base, "body": f"length(Entries) == `{count}`"} for count in entries]
        self._ask("POST", "rules", rules)

    def break_operations(self, operations: list[str], effect: dict[str, Any], times: int) -> None:
        """Break the next `times` calls of each of these operations of SQS."""
        base = {"service": "sqs", "times": times, **effect}
        self._ask("POST", "rules", [{**base, "operation": name} for name in operations])

    def mend(self) -> None:
        """End every fault."""
        self._ask("POST", "rules", [])
        self._ask("DELETE", "fired")

    def fired(self) -> int:
        """Count the calls that were broken since the last `mend`."""
        return len(self._ask("GET", "fired"))

    def alive(self) -> bool:
        """Tell whether it answers."""
        with suppress(OSError):
            return bool(self._ask("GET", "health"))
        return False

    def warm_up(self) -> None:
        """Break one call of each service: the first takes seconds, in which models are read."""
        for service, call in CALLS.items():
            self.break_calls(service, {"error": {"code": "Warm", "status": 400}})
            connection = HTTPConnection("127.0.0.1", self._port, timeout=START_SECONDS)
            scope = f"0/20260101/us-east-1/{service}/aws4_request"
            signed = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
            name = "AmazonSQS" if service == "sqs" else "AWSEvents"
            headers = {"Authorization": signed, "X-Amz-Target": f"{name}.{call}"}
            connection.request("POST", "/", "{}", headers)
            assert b"Warm" in connection.getresponse().read()
            connection.close()
        self.mend()

    def _ask(self, method: str, what: str, body: object = None) -> Any:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            connection.request(method, f"/_microburst/{what}", json.dumps(body))
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == 200, content
            return json.loads(content)
        finally:
            connection.close()


@contextmanager
def microburst(upstream: str) -> Iterator[Burst]:
    """Run the proxy in front of `upstream` while the block runs."""
    port = free_port()
    command = [sys.executable, "-m", "microburst", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--upstream", upstream],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        burst, end = Burst(port), time.monotonic() + START_SECONDS
        while not burst.alive():
            assert process.poll() is None, "microburst ended while starting"
            assert time.monotonic() < end, "microburst does not answer"
            time.sleep(0.05)
        burst.warm_up()
        yield burst
    finally:
        process.kill()
        process.wait()
