"""The one span and the one duration of a consumer's run, open from its first op to its last.

Promises: they continue the trace of the envelope (EB-04), or of the message where the envelope has
none; every op body runs inside the span; the run's end is on both, whatever it is.
Never: fails a run over a trace context; one that is absent or absurd is no parent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from dagster import InitResourceContext, ResourceDefinition, resource
from opentelemetry.trace import Span

from pramaan_pipelines.contracts.envelopes import Envelope, parse_envelope
from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError, Outcome
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.telemetry.metrics import DurationMetric
from pramaan_pipelines.telemetry.propagation import context_from_trace_context
from pramaan_pipelines.telemetry.provider import Telemetry, Timing
from pramaan_pipelines.telemetry.spans import UNKNOWN, SpanName, manual_span, mark_failed

HEALING: Final = "frame.owed"
"""What a healing run's span says in the place of an event type."""

FAILED: Final = "failed"
"""The outcome of a run that a fault ended; the message or the frame comes again."""
UNFINISHED: Final = "unfinished"
"""The outcome of a run that was cancelled, or whose worker was told to end."""


@dataclass(frozen=True)
class Consumption:
    """What one run's telemetry knows of it; `event_id` is None where no event is known."""

    span: Span
    timing: Timing
    event_id: UUID | None = None

    def ended(self, outcome: Outcome) -> None:
        """The run ended well, with `outcome`."""
        self.timing.labels["outcome"] = outcome

    def refused(self, reason: str) -> None:
        """A gate refused the envelope."""
        self._marked(Outcome.REFUSED, reason)

    def failed(self, error_type: str) -> None:
        """A fault ended the run."""
        self._marked(FAILED, error_type)

    def _marked(self, outcome: str, error_type: str) -> None:
        mark_failed(self.span, error_type)
        self.timing.labels["outcome"] = outcome
        self.timing.failed(error_type)

    @property
    def trace_id(self) -> str | None:
        """The trace that the run belongs to, as 32 hex digits; None where nothing is traced."""
        context = self.span.get_span_context()
        return format(context.trace_id, "032x") if context.is_valid else None


@dataclass(frozen=True)
class _Subject:
    """What a run is about, as far as its config tells it before any gate."""

    firm_id: str = UNKNOWN
    event_type: str = UNKNOWN
    event_id: UUID | None = None
    trace: TraceContext = field(default=TraceContext())


def delivery_of(run_config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the delivery that a run's config holds; a healing run has none."""
    parse_op: Mapping[str, Any] | None = run_config.get("ops", {}).get("parse")
    return None if parse_op is None else parse_op["config"]


def _subject_of(run_config: Mapping[str, Any], model: type[Envelope]) -> _Subject:
    """Return whose run it is; of an envelope that is refused, only what came beside it.

    The envelope's own trace is the producer's, and wins. What came beside it (AWSTraceHeader) names
    whoever put the message on the queue, which is better than nothing.
    """
    delivery = delivery_of(run_config)
    if delivery is None:
        owed = run_config.get("ops", {}).get("owed", {}).get("config", {})
        try:
            firm_id = str(UUID(owed["firm_id"]))
        except (KeyError, ValueError):
            firm_id = UNKNOWN  # Started by hand; its first gate tells of it.
        return _Subject(firm_id, HEALING)
    beside = TraceContext.of(delivery.get("traceparent"), None)
    try:
        envelope = parse_envelope(delivery["body"], model)
    except EnvelopeRefusedError:
        return _Subject(trace=beside)  # The parse gate tells of it.
    trace = envelope.trace if envelope.trace.traceparent else beside
    return _Subject(str(envelope.firm_id), str(envelope.event_type), envelope.event_id, trace)


def consume_span_of(
    name: SpanName, duration: DurationMetric, model: type[Envelope]
) -> ResourceDefinition:
    """Return the resource that opens a consumer's one span and one duration.

    It reads what the run's config tells: a re-execution runs no parse gate again.

    Args:
        name: the registered span of one run.
        duration: the histogram of one run.
        model: the envelope that the consumer reads.
    """

    @resource(required_resource_keys={"telemetry"})
    def opened(context: InitResourceContext) -> Iterator[Consumption]:
        telemetry: Telemetry = context.resources.telemetry
        run = context.run
        subject = _Subject() if run is None else _subject_of(run.run_config, model)
        parent = context_from_trace_context(subject.trace)
        with (
            manual_span(telemetry.tracer, name, parent=parent) as span,
            telemetry.timed(duration, outcome=UNFINISHED) as timing,
        ):
            span.set_attributes({"firm_id": subject.firm_id, "event.type": subject.event_type})
            yield Consumption(span, timing, subject.event_id)

    return opened
