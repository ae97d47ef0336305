"""The two trace strings that rows, envelopes and payloads carry.

Promises: what is kept is a well-formed W3C pair; anything else becomes "no parent", never an error.
Never: changes a well-formed value.

Source: https://www.w3.org/TR/trace-context/ (version 00 and later; any two hex flag digits).
"""

import re
from typing import NamedTuple

TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)
_MEMBER = (
    r"[a-z0-9][a-z0-9_\-*/@]{0,255}="
    r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
TRACESTATE = re.compile(rf"(?=.{{1,512}}\Z){_MEMBER}( *, *{_MEMBER}){{0,31}}")
"""A list of key=value, so that a sentence is none."""


class TraceContext(NamedTuple):
    """A W3C traceparent and tracestate, each None when absent."""

    traceparent: str | None = None
    tracestate: str | None = None

    @classmethod
    def of(cls, traceparent: object, tracestate: object) -> "TraceContext":
        """Return what is well formed of two values of any shape.

        A tracestate without a valid traceparent means nothing and is dropped.
        """
        if not (isinstance(traceparent, str) and TRACEPARENT.fullmatch(traceparent)):
            return cls()
        if isinstance(tracestate, str) and TRACESTATE.fullmatch(tracestate):
            return cls(traceparent, tracestate)
        return cls(traceparent)

    @property
    def trace_id(self) -> str | None:
        """The 32 hex digits that name the trace, or None."""
        return self.traceparent.split("-")[1] if self.traceparent else None


def trace_id_of(traceparent: object) -> str | None:
    """Return the trace that a value of any shape names; None where it is no traceparent."""
    return TraceContext.of(traceparent, None).trace_id
