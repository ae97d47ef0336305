"""The duration metrics, and how a process sets telemetry up."""

import os
import subprocess
import sys

import pytest

from pramaan_pipelines.telemetry.metrics import SECONDS_BUCKETS, DurationMetric
from pramaan_pipelines_tests.support.records import TelemetryRecord


def run(code: str, **environment: str) -> str:
    """Run `code` in a fresh interpreter, where warnings are errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_metrics_are_those_of_the_stories() -> None:
    assert {str(metric) for metric in DurationMetric} == {
        "pramaan.document_ingest_relay.duration",
        "pramaan.document_registration_relay.duration",
        "pramaan.domain_event_relay.duration",
        "pramaan.framer_trigger.duration",
    }


@pytest.mark.parametrize("metric", [m for m in DurationMetric if m.endswith("relay.duration")])
def test_a_duration_is_recorded_in_seconds_with_two_labels(
    record: TelemetryRecord, metric: DurationMetric, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with record.telemetry.timed(metric):
            pass
    (point,) = record.histogram_points(metric)
    assert dict(point.attributes) == {"service": "pramaan-pipelines", "environment": "test"}
    assert point.count == 2
    assert 0 <= point.sum < 1
    assert tuple(point.explicit_bounds) == SECONDS_BUCKETS
    assert max(SECONDS_BUCKETS) <= 60
    data = record.reader.get_metrics_data()
    assert data is not None
    assert data.resource_metrics[0].scope_metrics[0].metrics[0].unit == "s"
    assert caplog.records == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_is_recorded_too_by_its_type_alone(
    record: TelemetryRecord, error: type[BaseException]
) -> None:
    metric = DurationMetric.DOCUMENT_REGISTRATION_RELAY
    with pytest.raises(error), record.telemetry.timed(metric):
        raise error("PRIVILEGED")
    (point,) = record.histogram_points(metric)
    assert dict(point.attributes) == {
        "service": "pramaan-pipelines",
        "environment": "test",
        "error.type": error.__name__,
    }
    assert point.count == 1


def test_each_relay_has_a_metric_of_its_own(record: TelemetryRecord) -> None:
    with record.telemetry.timed(DurationMetric.DOCUMENT_INGEST_RELAY):
        pass
    assert record.histogram_points(DurationMetric.DOCUMENT_REGISTRATION_RELAY) == []


SETUP = """
from opentelemetry import trace
from pramaan_pipelines.telemetry.provider import Telemetry
assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider), "set up at import"
first = Telemetry.current("test")
provider = trace.get_tracer_provider()
second = Telemetry.current("test")
assert trace.get_tracer_provider() is provider
assert provider._span_limits.max_links == 1000
with first.tracer.start_as_current_span("one") as span:
    assert span.is_recording()
print(provider.resource.attributes["service.name"])
"""


def test_a_process_sets_telemetry_up_once_where_the_work_runs() -> None:
    assert run(SETUP) == "pramaan-pipelines"


HEARD = """
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pramaan_pipelines.telemetry.provider import Telemetry
told = [Telemetry.current("test").heard]
exporter = InMemorySpanExporter()
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
told.append(Telemetry.current("test").heard)
Telemetry.current("test").tracer.start_span("one").end()
print(told, len(exporter.get_finished_spans()))
"""


def test_it_is_known_whether_anything_hears_the_spans() -> None:
    """Where nothing does, a drain makes no link for each of its rows."""
    assert run(HEARD) == "[False, True] 1"


def test_the_propagators_of_the_deployment_load_in_a_fresh_interpreter() -> None:
    """OTEL_PROPAGATORS=xray fails at import where its package is missing."""
    code = (
        "from opentelemetry import propagate, trace\n"
        "from pramaan_pipelines.telemetry.provider import Telemetry\n"
        "carrier = {}\n"
        "with Telemetry.current('test').tracer.start_as_current_span('one'):\n"
        "    propagate.inject(carrier)\n"
        "print(sorted(carrier))"
    )
    found = run(code, OTEL_PROPAGATORS="xray,tracecontext")
    assert found == "['X-Amzn-Trace-Id', 'traceparent']"
