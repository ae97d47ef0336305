"""Processes that export, each forked off after the imports, with an environment of its own.

Called with a JSON list of cases; prints a JSON list of what each child says. Only the environment
tells the children apart, as it would in a deployment.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.trace import TracerProvider

from pramaan_pipelines.telemetry.export import flush
from pramaan_pipelines.telemetry.metrics import CountMetric, DurationMetric
from pramaan_pipelines.telemetry.provider import Telemetry, span_limits
from pramaan_pipelines.telemetry.spans import SpanName, manual_span

Answer = dict[str, Any]


def work(spans: int = 1) -> float:
    """Do what a run does; returns its seconds."""
    telemetry, started = Telemetry.current("test"), perf_counter()
    for _ in range(spans):
        with (
            manual_span(telemetry.tracer, SpanName.DOMAIN_EVENT_RELAY),
            telemetry.timed(DurationMetric.DOMAIN_EVENT_RELAY),
        ):
            telemetry.count(CountMetric.RELAY_ROWS, 1, lane="domain_event_relay", outcome="sent")
    return perf_counter() - started


def run(spans: int) -> Answer:
    """Work and hand over."""
    worked, started = work(spans), perf_counter()
    in_time = flush()
    return {
        "worked": worked,
        "flushed": perf_counter() - started,
        "in_time": in_time,
        "exporter": any(name.startswith("opentelemetry.exporter.otlp") for name in sys.modules),
        "meters": type(metrics.get_meter_provider()).__name__,
        "threads": threading.active_count(),
    }


def twice() -> Answer:
    """Set up again and again, as run after run in one process would."""
    return run(1) | {"again": work()} | run(1)


def fork_after_set_up() -> Answer:
    """Fork where all is set up and was used; parent and child both work and hand over."""
    run(1)
    child = os.fork()
    work()
    flush()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    return {}


def host() -> Answer:
    """Let a host set up a provider first."""
    provider = TracerProvider(span_limits=span_limits())
    trace.set_tracer_provider(provider)
    answer = run(1)
    return answer | {
        "kept": trace.get_tracer_provider() is provider,
        "processors": len(provider._active_span_processor._span_processors),
    }


def dagster_run() -> Answer:
    """Do the same as a run of Dagster, with the resources of the code location."""
    from dagster import in_process_executor, job, op  # noqa: PLC0415 - for this case alone

    from pramaan_pipelines.orchestration.resources import (  # noqa: PLC0415
        settings_resource,
        telemetry_resource,
    )

    worked: list[float] = []

    @op(required_resource_keys={"telemetry"})
    def do() -> None:
        work(2200)
        worked.append(perf_counter())

    @job(
        executor_def=in_process_executor,
        resource_defs={"settings": settings_resource, "telemetry": telemetry_resource},
    )
    def one() -> None:
        do()

    result = one.execute_in_process()
    return {"success": result.success, "ending": perf_counter() - worked[0]}


DOES: dict[str, Callable[[], Answer]] = {
    "run": lambda: run(1),
    "flood": lambda: run(2200),
    "twice": twice,
    "fork": fork_after_set_up,
    "host": host,
    "dagster": dagster_run,
}


def child(case: dict[str, Any]) -> int:
    """Fork a child for `case`; returns the end of the pipe that its answer comes from."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        return reading
    os.environ.update(case["environment"])
    try:
        answer = DOES[case["does"]]()
    except BaseException as error:  # noqa: BLE001 - told to the test, which fails of it
        answer = {"raised": repr(error)}
    os.write(writing, json.dumps(answer).encode())
    # Without an atexit hook: nothing here may depend on one.
    os._exit(0)


def main() -> None:
    """Run all cases at once."""
    cases = json.loads(sys.argv[1])
    if any(case["does"] == "dagster" for case in cases):
        import pramaan_pipelines.orchestration.resources  # noqa: F401, PLC0415 - once for all
    ends = [child(case) for case in cases]
    answers = []
    for end in ends:
        with os.fdopen(end) as pipe:
            answers.append(json.loads(pipe.read()))
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
