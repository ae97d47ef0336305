"""The closed registry of metrics: names, labels, and what Prometheus calls them."""

from collections.abc import Iterator

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry

from pramaan_pipelines.telemetry.metrics import (
    REGISTRY,
    CountMetric,
    DurationMetric,
    GaugeMetric,
    Kind,
    UnregisteredMetricError,
    prometheus_name,
)
from pramaan_pipelines_tests.support.records import TelemetryRecord

ALLOWED = {"service", "environment", "error.type", "lane", "outcome", "status"}


def test_the_registry_holds_every_name_and_no_other() -> None:
    assert set(REGISTRY) == {*DurationMetric, *CountMetric, *GaugeMetric}
    assert all(spec.meaning.endswith(".") for spec in REGISTRY.values())


def test_no_metric_has_a_label_that_grows_with_the_data() -> None:
    for name, spec in REGISTRY.items():
        labels = {*spec.labels, *spec.at_times}
        assert labels <= ALLOWED, name
        if name in set(DurationMetric):
            assert {"service", "environment", "error.type"} <= labels, name
        else:
            assert labels <= {"lane", "outcome", "status"}, name


@pytest.mark.parametrize(
    "labels", [{}, {"lane": "a"}, {"lane": "a", "outcome": "sent", "firm_id": "b"}]
)
def test_a_label_that_is_not_registered_or_missing_is_an_error_and_no_number(
    record: TelemetryRecord, labels: dict[str, str]
) -> None:
    with pytest.raises(UnregisteredMetricError, match="has the labels lane, outcome"):
        record.telemetry.count(CountMetric.RELAY_ROWS, 1, **labels)
    assert record.reader.get_metrics_data() is None


def test_a_metric_that_is_not_registered_is_an_error(record: TelemetryRecord) -> None:
    with pytest.raises(UnregisteredMetricError, match="not a registered metric"):
        record.telemetry.count("pramaan.other", 1)  # type: ignore[arg-type] # that is the test


def test_a_duration_carries_the_trace_that_it_was_recorded_in(record: TelemetryRecord) -> None:
    with (
        record.telemetry.tracer.start_as_current_span("one") as span,
        record.telemetry.timed(DurationMetric.FRAMER_TRIGGER, outcome="unfinished") as timing,
    ):
        timing.labels["outcome"] = "refused"
        timing.failed("malformed")
    (point,) = record.histogram_points(DurationMetric.FRAMER_TRIGGER)
    assert [one.trace_id for one in point.exemplars] == [span.get_span_context().trace_id]
    assert dict(point.attributes) == {
        "service": "pramaan-pipelines",
        "environment": "test",
        "outcome": "refused",
        "error.type": "malformed",
    }


@pytest.fixture
def exposed() -> Iterator[set[str]]:
    """The names by which the real exporter exposes one point of each registered metric."""
    registry = CollectorRegistry()
    provider = MeterProvider([PrometheusMetricReader(registry=registry)])
    meter = provider.get_meter("test")

    def one(_: CallbackOptions) -> list[Observation]:
        return [Observation(1)]

    for name, spec in REGISTRY.items():
        match spec.kind:
            case Kind.HISTOGRAM:
                meter.create_histogram(name, spec.unit).record(1)
            case Kind.COUNTER:
                meter.create_counter(name, spec.unit).add(1)
            case Kind.GAUGE:
                meter.create_observable_gauge(name, [one], spec.unit)
    yield {sample.name for family in registry.collect() for sample in family.samples}
    provider.shutdown()


def test_prometheus_calls_each_metric_as_we_say(exposed: set[str]) -> None:
    ours = {name for name in exposed if name.startswith("pramaan_")}
    expected: set[str] = set()
    for name, spec in REGISTRY.items():
        parts = ("_bucket", "_count", "_sum") if spec.kind is Kind.HISTOGRAM else ("",)
        expected |= {prometheus_name(name) + part for part in parts}
    assert ours == expected
