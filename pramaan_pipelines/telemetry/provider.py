"""Where spans and metrics are made: a tracer and a meter, handed to whoever needs them.

Promises: set-up is idempotent and happens where the work runs, never at import; a registered metric
with its registered labels is all that is recorded.
Never: exports by itself; without an exporter everything here is cheap and silent.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final, Self

from opentelemetry import metrics, trace
from opentelemetry.metrics import Meter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits
from opentelemetry.trace import Tracer

from pramaan_pipelines.contracts.text import safe_text
from pramaan_pipelines.telemetry import asked, export
from pramaan_pipelines.telemetry.metrics import (
    SECONDS_BUCKETS,
    CountMetric,
    DurationMetric,
    spec_of,
)

SERVICE: Final = export.SERVICE
MAX_BATCH_ROWS: Final = 1000
"""The most rows that one drain may take; a batch span holds one link for each."""

_DEFAULT_LIMIT: Final = 128
"""Of the SDK; it drops links past it."""


def span_limits() -> SpanLimits:
    """Return the limits of the OTEL_*_LIMIT variables, but for the links."""
    try:
        return SpanLimits(max_links=MAX_BATCH_ROWS)
    except ValueError as error:
        asked.tell(f"{safe_text(error)}: the SDK's own limits are taken. Correct it.")
    return SpanLimits(
        max_links=MAX_BATCH_ROWS,
        max_attributes=_DEFAULT_LIMIT,
        max_events=_DEFAULT_LIMIT,
        max_span_attributes=_DEFAULT_LIMIT,
        max_event_attributes=_DEFAULT_LIMIT,
        max_link_attributes=_DEFAULT_LIMIT,
        max_attribute_length=SpanLimits.UNSET,
        max_span_attribute_length=SpanLimits.UNSET,
    )


@dataclass
class Timing:
    """What is known of a timed block when it ends.

    Attributes:
        labels: what its duration is labelled with, beside service and environment.
    """

    labels: dict[str, str] = field(default_factory=dict)

    def failed(self, error_type: str) -> None:
        """Label the duration with the low-cardinality `error_type`."""
        self.labels["error.type"] = error_type


@dataclass(frozen=True)
class Telemetry:
    """A tracer and a meter, and the two labels that every duration carries.

    Attributes:
        tracer: makes spans.
        meter: makes metrics.
        environment: a label.
        service: a label.
        heard: whether anything receives the spans; where nothing does, a link for each of hundreds
            of rows would be half of what a drain costs this process.
    """

    tracer: Tracer
    meter: Meter
    environment: str
    service: str = SERVICE
    heard: bool = True

    @classmethod
    def current(cls, environment: str) -> Self:
        """Return the process's telemetry, setting up what is not set up."""
        # In this order: the SDK's tracing asks for the process's meters.
        export.set_up_metrics(environment)
        export.set_up_tracing(environment, span_limits)
        resource = getattr(trace.get_tracer_provider(), "resource", Resource.get_empty())
        service = str(resource.attributes.get("service.name", SERVICE))
        return cls(
            trace.get_tracer(SERVICE),
            metrics.get_meter(SERVICE),
            environment,
            service,
            export.spans_are_heard(),
        )

    @contextmanager
    def timed(self, metric: DurationMetric, **labels: str) -> Iterator[Timing]:
        """Record the block's seconds under `metric`, also when it fails.

        Open it inside the block's span: its exemplar then carries the trace.

        Args:
            metric: a registered histogram.
            labels: what the registry asks for beside service and environment; the block may change
                them on what it is given.
        """
        started, timing = perf_counter(), Timing(labels)
        try:
            yield timing
        except BaseException as error:
            timing.failed(type(error).__name__)
            raise
        finally:
            labels = {"service": self.service, "environment": self.environment, **timing.labels}
            spec = spec_of(metric, labels)
            self.meter.create_histogram(
                metric, spec.unit, spec.meaning, explicit_bucket_boundaries_advisory=SECONDS_BUCKETS
            ).record(perf_counter() - started, labels)

    def count(self, metric: CountMetric, amount: int, **labels: str) -> None:
        """Add `amount` to the counter `metric`.

        Raises:
            UnregisteredMetricError: the registry names other labels.
        """
        spec = spec_of(metric, labels)
        self.meter.create_counter(metric, spec.unit, spec.meaning).add(amount, labels)
