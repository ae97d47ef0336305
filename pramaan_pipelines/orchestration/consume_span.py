"""The one span of a framer run, open from its first op to its last.

Promises: it continues the envelope's trace (EB-04), and every op body runs inside it.
Never: fails a run over a trace context; one that is absent or absurd is no parent.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from dagster import InitResourceContext, resource
from opentelemetry.trace import Span

from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.framer.gates import parse
from pramaan_pipelines.telemetry.propagation import context_from_trace_context
from pramaan_pipelines.telemetry.provider import Telemetry
from pramaan_pipelines.telemetry.spans import SpanName, manual_span


def delivery_of(run_config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the delivery that a framer run's config holds; a healing run has none."""
    parse_op: Mapping[str, Any] | None = run_config.get("ops", {}).get("parse")
    return None if parse_op is None else parse_op["config"]


@resource(required_resource_keys={"telemetry"})
def consume_span_resource(context: InitResourceContext) -> Iterator[Span]:
    """Open the span; the parse gate fills in what the envelope tells."""
    telemetry: Telemetry = context.resources.telemetry
    trace = TraceContext()
    delivery = None if context.run is None else delivery_of(context.run.run_config)
    if delivery is not None:
        # The parse gate tells of a refusal; the span then stands for itself.
        with suppress(EnvelopeRefusedError):
            trace = parse(delivery["body"]).trace
    parent = context_from_trace_context(trace)
    with manual_span(telemetry.tracer, SpanName.FRAMER_CONSUME, parent=parent) as span:
        yield span
