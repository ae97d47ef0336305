"""What a test looks at afterwards: the spans and the metrics that were recorded."""

from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pramaan_pipelines.telemetry.provider import Telemetry


@dataclass(frozen=True)
class TelemetryRecord:
    """A telemetry, and what it was told so far."""

    telemetry: Telemetry
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    def spans(self, name: str) -> list[ReadableSpan]:
        """Return the finished spans called `name`."""
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def counts(self, name: str) -> dict[tuple[str, ...], int]:
        """Return what the counter called `name` has counted, by its labels' values in order."""
        return {
            tuple(str(value) for _, value in sorted(point.attributes.items())): point.value
            for point in self.points(name)
        }

    def histogram_points(self, name: str) -> list[Any]:
        """Return the data points of the histogram called `name`."""
        return self.points(name)

    def points(self, name: str) -> list[Any]:
        """Return the data points of the metric called `name`."""
        data = self.reader.get_metrics_data()
        if data is None:
            return []
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]
