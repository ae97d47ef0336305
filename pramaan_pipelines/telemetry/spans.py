"""The closed registry of manual spans.

Promises: one manual span per drain and per framer run, with its registered kind and the attributes
that the registry requires.
Never: opens a span that is not registered; an unknown name is an error, not a new span.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

from pramaan_pipelines.errors import PramaanError

UNKNOWN: Final = "unknown"
"""What a required attribute says until the envelope has told it."""


class SpanName(StrEnum):
    """Every manual span that this project may open."""

    DOCUMENT_INGEST_RELAY = "functions.document_ingest_relay.batch"
    DOCUMENT_REGISTRATION_RELAY = "functions.document_registration_relay.batch"
    DOMAIN_EVENT_RELAY = "functions.domain_event_relay.batch"
    FRAMER_CONSUME = "functions.framer_trigger.consume"


@dataclass(frozen=True)
class SpanSpec:
    """What the registry says of one span."""

    kind: SpanKind
    required: tuple[str, ...] = field(default=())


REGISTRY: Final[Mapping[SpanName, SpanSpec]] = {
    SpanName.DOCUMENT_INGEST_RELAY: SpanSpec(SpanKind.CONSUMER),
    SpanName.DOCUMENT_REGISTRATION_RELAY: SpanSpec(SpanKind.CONSUMER),
    SpanName.DOMAIN_EVENT_RELAY: SpanSpec(SpanKind.CONSUMER),
    SpanName.FRAMER_CONSUME: SpanSpec(SpanKind.CONSUMER, ("firm_id", "event.type")),
}


class UnregisteredSpanError(PramaanError):
    """A span name is not in the registry. Add it to `SpanName` and `REGISTRY`, or use one there."""


@contextmanager
def manual_span(
    tracer: Tracer,
    name: SpanName | str,
    *,
    parent: Context | None = None,
    links: Sequence[Link] = (),
) -> Iterator[Span]:
    """Open the registered span `name`, current while the block runs.

    An exception marks the span as failed with the error's type only: its text may hold values.

    Args:
        tracer: where the span is made.
        name: a registered name.
        parent: the context to continue; None starts a trace of its own.
        links: other contexts that this span belongs to.

    Raises:
        UnregisteredSpanError: `name` is not registered.
    """
    if name not in SpanName.__members__.values():
        raise UnregisteredSpanError(
            f"{name!r} is not a registered span: add it to telemetry/spans.py"
        )
    spec = REGISTRY[SpanName(name)]
    with tracer.start_as_current_span(
        str(name),
        context=parent if parent is not None else Context(),
        kind=spec.kind,
        links=links,
        attributes=dict.fromkeys(spec.required, UNKNOWN),
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            mark_failed(span, type(error).__name__)
            raise


def mark_failed(span: Span, error_type: str) -> None:
    """Set the span's status to error with the low-cardinality `error_type`."""
    span.set_status(Status(StatusCode.ERROR, error_type))
    span.set_attribute("error.type", error_type)
