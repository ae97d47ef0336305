"""The OTLP exporters, apart from the rest so that a process which exports nothing never loads them.

Promises: what the standard variables say of endpoint, headers, compression, certificates, time-outs
and temporality is done; the SDK reads them.
Never: is imported but by telemetry/export.py, and there only when an exporter is asked for.
"""

from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import Counter, Histogram
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    MetricReader,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from pramaan_pipelines.settings import ExportSettings

NO_SHARED_CONNECTION: Final = {"connection": "close"}
"""A process and its forked child must never write to one kept connection."""


def span_processor() -> SpanProcessor:
    """Return what collects spans and sends them in the background, dropping what is too much."""
    return BatchSpanProcessor(OTLPSpanExporter(headers=NO_SHARED_CONNECTION))


def metric_reader() -> MetricReader:
    """Return what sends metrics at each OTEL_METRIC_EXPORT_INTERVAL.

    Counts go as deltas unless the environment prefers otherwise: many short processes of one name
    cannot each count up from 0. Gauges have no temporality.
    """
    preferred: dict[type, AggregationTemporality] | None = None
    if ExportSettings().otel_exporter_otlp_metrics_temporality_preference is None:
        preferred = dict.fromkeys((Counter, Histogram), AggregationTemporality.DELTA)
    return PeriodicExportingMetricReader(
        OTLPMetricExporter(headers=NO_SHARED_CONNECTION, preferred_temporality=preferred)
    )
