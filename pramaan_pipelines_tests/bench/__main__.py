"""Runs the bench and prints its table; the exit code is 0 also where something was missed."""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Final

from pramaan_pipelines_tests.bench import (
    claims,
    drain_bus,
    drain_null,
    drain_queue,
    idle,
    imports,
    latency,
    memory,
    runs,
    sent_rows,
)
from pramaan_pipelines_tests.bench.measure import Line, say
from pramaan_pipelines_tests.bench.report import machine, markdown, write_json
from pramaan_pipelines_tests.bench.site import REPOSITORY, Site, site

TABLE: Final[dict[str, Callable[[Site], list[Line]]]] = {
    "null": drain_null.lines,
    "queue": drain_queue.lines,
    "bus": drain_bus.lines,
    "sent": sent_rows.lines,
    "memory": memory.lines,
    "latency": latency.lines,
    "claims": claims.lines,
    "runs": runs.lines,
    "imports": imports.lines,
    "idle": idle.lines,
}
QUICK: Final = ("null", "queue", "bus", "sent", "memory", "claims", "imports")
"""Those that need no daemon: its start alone takes ten seconds."""


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything: two minutes")
    parser.add_argument("--only", nargs="*", choices=TABLE, help="these lines")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / ".bench", help="kept: peers")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # its servers are to go with it
    found: list[Line] = []
    path = asked.folder / ("quick.json" if asked.quick else "bench.json")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="pramaan-bench-") as state,
            site(Path(state), asked.folder, quick=asked.quick) as place,
        ):
            for name in asked.only or (QUICK if asked.quick else TABLE):
                started = perf_counter()
                with place.part() as part:
                    found += TABLE[name](part)
                say(f"{name}: {perf_counter() - started:.0f} s")
    finally:
        # Whoever ends it after half an hour wants what was measured until then.
        write_json(found, path)
        print(f"{machine()}\n\n{markdown(found)}\nEvery sample: {path}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
