"""Where spans and metrics are made: a tracer and a meter, handed to whoever needs them.

Promises: set-up is idempotent and happens where the work runs, never at import.
Never: exports by itself; without an exporter everything here is cheap and silent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Final, Self

from opentelemetry import metrics, trace
from opentelemetry.metrics import Meter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.trace import Tracer

from pramaan_pipelines.telemetry.metrics import SECONDS_BUCKETS, DurationMetric

SERVICE: Final = "pramaan-pipelines"
MAX_BATCH_ROWS: Final = 1000
"""The most rows that one drain may take; a batch span holds one link for each."""

SPAN_LIMITS: Final = SpanLimits(max_links=MAX_BATCH_ROWS)
"""The SDK drops links past 128."""


@dataclass(frozen=True)
class Telemetry:
    """A tracer and a meter, and the two labels that every metric carries."""

    tracer: Tracer
    meter: Meter
    environment: str
    service: str = SERVICE

    @classmethod
    def current(cls, environment: str) -> Self:
        """Return the process's telemetry, setting up a tracer provider where there is none."""
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            resource = Resource.create({"service.name": SERVICE})
            trace.set_tracer_provider(TracerProvider(span_limits=SPAN_LIMITS, resource=resource))
        return cls(trace.get_tracer(SERVICE), metrics.get_meter(SERVICE), environment)

    @contextmanager
    def timed(self, metric: DurationMetric) -> Iterator[None]:
        """Record the block's seconds under `metric`, also when it fails."""
        started, labels = perf_counter(), {"service": self.service, "environment": self.environment}
        try:
            yield
        except BaseException as error:
            labels["error.type"] = type(error).__name__
            raise
        finally:
            self.meter.create_histogram(
                metric, unit="s", explicit_bucket_boundaries_advisory=SECONDS_BUCKETS
            ).record(perf_counter() - started, labels)
