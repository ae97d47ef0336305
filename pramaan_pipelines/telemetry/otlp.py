"""The OTLP exporters, apart from the rest so that a process which exports nothing never loads them.

Promises: what the standard variables say of endpoint, headers, compression, certificates, time-outs
and temporality is done; the SDK reads them.
Never: is imported but by telemetry/export.py and doctor, and there only when an exporter is asked
for.
"""

from http import HTTPStatus
from typing import Final

import requests
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

from pramaan_pipelines.settings import ExportSettings, Signal
from pramaan_pipelines.telemetry import asked

PROBE_SECONDS: Final = 5.0
HINTS: Final = {
    3: "name the address that it redirects to, no redirect is followed",
    4: "look at the path, and at the token in OTEL_EXPORTER_OTLP_HEADERS",
    5: "look at the collector's own log",
}
NO_SHARED_CONNECTION: Final = {"connection": "close"}
"""A process and its forked child must never write to one kept connection."""


def exporting(settings: ExportSettings, signal: Signal) -> SpanProcessor | MetricReader:
    """Return what sends `signal` in the background."""
    return _span_processor(settings) if signal == "traces" else _metric_reader(settings)


def _span_processor(settings: ExportSettings) -> SpanProcessor:
    """Return what collects spans and sends them, dropping what is too much."""
    seconds = asked.seconds(settings, "traces")
    return BatchSpanProcessor(OTLPSpanExporter(headers=NO_SHARED_CONNECTION, timeout=seconds))


def _metric_reader(settings: ExportSettings) -> MetricReader:
    """Return what sends metrics at each OTEL_METRIC_EXPORT_INTERVAL.

    Counts go as deltas unless the environment prefers otherwise: many short processes of one name
    cannot each count up from 0. Gauges have no temporality.
    """
    preferred: dict[type, AggregationTemporality] | None = None
    if settings.otel_exporter_otlp_metrics_temporality_preference is None:
        preferred = dict.fromkeys((Counter, Histogram), AggregationTemporality.DELTA)
    return PeriodicExportingMetricReader(
        OTLPMetricExporter(
            headers=NO_SHARED_CONNECTION,
            timeout=asked.seconds(settings, "metrics"),
            preferred_temporality=preferred,
        )
    )


def unheard(settings: ExportSettings, signal: Signal) -> str | None:
    """Post an empty request as the exporter would, once; return why it was not taken.

    The exporter follows no redirect, and takes one for a success.
    """
    certificate, key = (settings.of(f"client_{name}", signal) for name in ("certificate", "key"))
    try:
        with requests.post(
            asked.endpoint(settings, signal),
            data=b"",
            headers={"Content-Type": "application/x-protobuf", **asked.headers(settings, signal)},
            timeout=min(asked.seconds(settings, signal), PROBE_SECONDS),
            allow_redirects=False,
            verify=settings.of("certificate", signal) or True,
            cert=(certificate, key) if certificate and key else certificate,
            stream=True,
        ) as answer:
            status = answer.status_code
    except (requests.RequestException, OSError) as error:
        return f"gives no answer ({type(error).__name__}): is it there, and reached from here?"
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    return f"answers {status}: {HINTS.get(status // 100, HINTS[4])}"
