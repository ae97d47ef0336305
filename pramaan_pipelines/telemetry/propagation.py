"""From a live span to two stored strings, and back.

Promises: what was stored is read back as it was; a context that is absent or absurd is no parent
and no link, never an error.
Never: stamps a context anew on its way; only a producer stamps.
"""

from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Link, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pramaan_pipelines.contracts.trace import TraceContext

_W3C: Final = TraceContextTextMapPropagator()


def stamp_current_trace() -> TraceContext:
    """Return the live span's context as the two strings that a row or a payload stores."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return TraceContext.of(carrier.get("traceparent"), carrier.get("tracestate"))


def context_from_trace_context(trace: TraceContext) -> Context | None:
    """Return the context to continue, or None where `trace` holds none that is valid."""
    if trace.traceparent is None:
        return None
    carrier = {"traceparent": trace.traceparent}
    if trace.tracestate is not None:
        carrier["tracestate"] = trace.tracestate
    context = _W3C.extract(carrier, context=Context())
    return context if get_current_span(context).get_span_context().is_valid else None


def link_from_trace_context(trace: TraceContext) -> Link | None:
    """Return a link to the stored context, or None where `trace` holds none that is valid."""
    context = context_from_trace_context(trace)
    return None if context is None else Link(get_current_span(context).get_span_context())
