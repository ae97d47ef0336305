"""From a live span to two stored strings, and back.

Promises: what was stored is read back as it was; a context that is absent or absurd is no parent
and no link, never an error. Between two of AWS's services the same context goes as X-Ray's header
too, where OTEL_PROPAGATORS names `xray`.
Never: stamps a context anew on its way; only a producer stamps.
"""

import logging
import re
from functools import cache
from typing import Final

from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import Link, SpanContext, TraceFlags, TraceState, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pramaan_pipelines.contracts.trace import TraceContext

LOGGER = logging.getLogger(__name__)

_W3C: Final = TraceContextTextMapPropagator()

_KEY: Final = re.compile(
    r"[a-z][_0-9a-z\-*/]{0,255}|[a-z0-9][_0-9a-z\-*/]{0,240}@[a-z][_0-9a-z\-*/]{0,13}"
)
"""Of a tracestate's member, as the SDK has it: https://www.w3.org/TR/trace-context-1/#key"""

XRAY_HEADER: Final = "X-Amzn-Trace-Id"
"""What SQS calls AWSTraceHeader, and EventBridge TraceHeader.

Source: https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader
"""


def stamp_current_trace() -> TraceContext:
    """Return the live span's context as the two strings that a row or a payload stores."""
    return _stamp(None)


def _stamp(context: Context | None) -> TraceContext:
    carrier: dict[str, str] = {}
    _W3C.inject(carrier, context)
    return TraceContext.of(carrier.get("traceparent"), carrier.get("tracestate"))


def xray_header(trace: TraceContext) -> str | None:
    """Return the stored context as X-Ray's header; None without one, or without `xray`."""
    propagator = _configured()
    if XRAY_HEADER not in propagator.fields:
        return None
    context = context_from_trace_context(trace)
    if context is None:
        return None
    carrier: dict[str, str] = {}
    try:
        propagator.inject(carrier, context)
    except Exception:  # noqa: BLE001 - a propagator is no part of ours, and no row waits for one
        return None
    return carrier.get(XRAY_HEADER)


def trace_from_xray_header(header: str | None) -> TraceContext:
    """Return the context that X-Ray's `header` names; none where it names none, or without `xray`.

    It is for what has no stored context of its own: that one always wins, for it is the producer's.
    """
    if not header:
        return TraceContext()
    try:
        return _stamp(_configured().extract({XRAY_HEADER: header}, context=Context()))
    except Exception:  # noqa: BLE001 - a header is a stranger's text, and the propagator is no part of ours
        return TraceContext()


@cache
def _configured() -> TextMapPropagator:
    """Return the propagators of OTEL_PROPAGATORS; W3C's alone where one of them is not installed.

    The import itself reads the variable, and raises for a name that it does not know.
    """
    try:
        from opentelemetry.propagate import get_global_textmap  # noqa: PLC0415 - it may raise

        return get_global_textmap()
    except Exception as error:  # noqa: BLE001 - whatever a propagator's own import raises
        LOGGER.warning(
            "OTEL_PROPAGATORS cannot be used (%s): only W3C trace context is; install the "
            "propagator that it names, or correct it",
            type(error).__name__,
        )
        return _W3C


def _state(tracestate: str | None) -> str | None:
    """Return the members of `tracestate` that the SDK takes.

    Of the first that it does not, such as a key of the newer grammar, it would write the text into
    its log, and drop them all.
    """
    if tracestate is None:
        return None
    kept: dict[str, str] = {}
    for member in tracestate.split(","):
        key = member.partition("=")[0].strip()
        if _KEY.fullmatch(key):
            kept.setdefault(key, member.strip())
    return ",".join(kept.values()) or None


def context_from_trace_context(trace: TraceContext) -> Context | None:
    """Return the context to continue, or None where `trace` holds none that is valid."""
    if trace.traceparent is None:
        return None
    carrier = {"traceparent": trace.traceparent}
    if state := _state(trace.tracestate):
        carrier["tracestate"] = state
    context = _W3C.extract(carrier, context=Context())
    return context if get_current_span(context).get_span_context().is_valid else None


def link_from_trace_context(trace: TraceContext) -> Link | None:
    """Return a link to the stored context, or None where `trace` holds none that is valid.

    A batch has hundreds of them: the propagator's way through a carrier and a context would be a
    third of all that a drain costs this process.
    """
    traceparent, tracestate = TraceContext.of(*trace)
    if traceparent is None:
        return None
    _, trace_id, span_id, flags = traceparent.split("-")
    state = _state(tracestate)
    return Link(
        SpanContext(
            int(trace_id, 16),
            int(span_id, 16),
            is_remote=True,
            trace_flags=TraceFlags(int(flags, 16)),
            trace_state=TraceState.from_header([state]) if state else None,
        )
    )
