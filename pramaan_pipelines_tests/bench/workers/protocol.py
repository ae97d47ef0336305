"""How a program that is measured hears what to do and tells what it did; standard library only.

The first line of its input is the order; then each line `go` is one drain until nothing is left,
answered by one line. It measures itself: its start and its imports are no part of a drain.
"""

import gc
import json
import resource
import sys
from collections.abc import Callable
from typing import Any

Seen = tuple[float, list[str]]
"""Seconds, and the event ids that a sink inside the program took; none where it is outside."""


def order() -> dict[str, Any]:
    """Return the order."""
    found: dict[str, Any] = json.loads(sys.stdin.readline())
    return found


def serve(drain: Callable[[], Seen]) -> None:
    """Answer every `go` until the input ends.

    What was imported is frozen first, as in a run worker of ours (`orchestration/warm/zygote.py`):
    for every contender in Python alike, the collector passes it by.
    """
    gc.collect()
    gc.freeze()
    _tell({"ready": True})
    for _ in sys.stdin:
        seconds, seen = drain()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB on Linux, bytes on macOS
        _tell({"seconds": seconds, "seen": seen, "peak": peak})


def _tell(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def attributes(headers: dict[str, str]) -> dict[str, dict[str, str]]:
    """Return `headers` as SQS's MessageAttributes."""
    return {name: {"DataType": "String", "StringValue": v} for name, v in headers.items()}
