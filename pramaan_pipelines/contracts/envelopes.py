"""The envelopes that cross the queues, and the one function that validates what arrives.

Promises: HR-21, an envelope is validated where it is consumed; a refusal names the places of the
errors and never a value; a trace context of any shape is carried on as "no parent".
Never: raises anything but `EnvelopeRefusedError` for a hostile body, or lets an unknown field in.
"""

import json
import re
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeVar
from uuid import UUID

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    create_model,
    model_validator,
)

from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError, RefusalReason
from pramaan_pipelines.contracts.trace import TraceContext

MAX_BODY_BYTES: Final = 256 * 1024
"""Both services take a message of this size everywhere."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


_TOO_LARGE: Final = "body (over 256 KiB)"
_NOT_UTF_8: Final = "body (not UTF-8)"
_NOT_JSON: Final = "body (not JSON)"
_NOT_AN_OBJECT: Final = "body (not an object)"
_DUPLICATE_KEYS: Final = "body (duplicate keys)"
_NOT_UNICODE: Final = "body (a key is not Unicode)"
_NOT_A_NUMBER: Final = "body (NaN or Infinity)"
_REFUSED_WHOLE: Final = {
    f"<refused: {place}>": place
    for place in (
        _TOO_LARGE,
        _NOT_UTF_8,
        _NOT_JSON,
        _NOT_AN_OBJECT,
        _DUPLICATE_KEYS,
        _NOT_UNICODE,
        _NOT_A_NUMBER,
    )
}
"""What `pointer_body` stores of a body that is no envelope at all, with the place that it names."""


def _malformed(*places: str) -> EnvelopeRefusedError:
    return EnvelopeRefusedError(RefusalReason.MALFORMED, places)


def _canonical_uuid(value: object) -> object:
    if isinstance(value, UUID) or (isinstance(value, str) and _UUID.fullmatch(value)):
        return value
    raise ValueError("not a canonical lower-case UUID")


CanonicalUUID = Annotated[UUID, BeforeValidator(_canonical_uuid)]
Environment = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}$", strict=True)]


def _timestamp(value: object) -> object:
    # pydantic reads a number, also one in quotes, as epoch seconds, and takes a fraction of any
    # length; the contract says an RFC 3339 text.
    if isinstance(value, datetime) or (isinstance(value, str) and _RFC_3339.fullmatch(value)):
        return value
    raise ValueError("not an RFC 3339 timestamp")


Timestamp = Annotated[AwareDatetime, BeforeValidator(_timestamp)]


class Envelope(BaseModel):
    """What every envelope says. A new event's envelope names its `event_type` beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    event_id: CanonicalUUID
    event_type: EventType
    firm_id: CanonicalUUID
    occurred_at: Timestamp
    traceparent: str | None = None
    tracestate: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _keep_only_a_valid_trace(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        traceparent, tracestate = TraceContext.of(data.get("traceparent"), data.get("tracestate"))
        return {**data, "traceparent": traceparent, "tracestate": tracestate}

    @property
    def trace(self) -> TraceContext:
        """The trace context that travels with the envelope."""
        return TraceContext(self.traceparent, self.tracestate)


class DocumentEnvelope(Envelope):
    """The pointer envelope of both batons: which document, of which firm, and the trace."""

    event_type: Literal[
        EventType.DOCUMENT_INGEST_REQUESTED, EventType.DOCUMENT_REGISTRATION_REQUESTED
    ]
    document_id: CanonicalUUID


def _exactly_int(value: object) -> object:
    # True and 1.0 equal 1 in Python; in the contract they are other values.
    if type(value) is not int:
        raise ValueError("not an integer")
    return value


class MatterSubject(BaseModel):
    """What a domain event is about."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    type: Literal["matter"]
    id: CanonicalUUID


class MatterCreated(Envelope):
    """`matter.created`, version 1."""

    event_type: Literal[EventType.MATTER_CREATED]
    schema_version: Annotated[Literal[1], BeforeValidator(_exactly_int)]
    environment: Environment
    subject: MatterSubject

    @property
    def matter_id(self) -> UUID:
        """The matter that was created."""
        return self.subject.id


class _BusDelivery(BaseModel):
    """EventBridge's wrapper around an envelope; its own fields but two are of no use here.

    Source: https://docs.aws.amazon.com/eventbridge/latest/ref/overiew-event-structure.html
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


E = TypeVar("E", bound=Envelope)


@cache
def _on_the_bus(model: type[Envelope]) -> type[_BusDelivery]:
    """Return the wrapper around `model`, whose detail-type is the envelope's event_type."""
    event_type: Any = model.model_fields["event_type"].annotation
    return create_model(
        f"{model.__name__}OnTheBus",
        __base__=_BusDelivery,
        detail_type=Annotated[event_type, Field(alias="detail-type")],
        detail=model,
    )


def parse_envelope(body: str, model: type[E]) -> E:
    """Return the envelope in `body`, with EventBridge's wrapper removed (gate 1, HR-21).

    Args:
        body: the text of one SQS message, at most 256 KiB of UTF-8.
        model: the envelope that the queue's consumer reads.

    Raises:
        EnvelopeRefusedError: with the places of the errors.
    """
    value = _load_object(body)
    try:
        if "detail-type" in value:
            delivery: Any = _on_the_bus(model).model_validate(value)
            found: E = delivery.detail
            return found
        return model.model_validate(value)
    except ValidationError as error:
        raise _malformed(*_places(error)) from None


def parse_matter_created(body: str) -> MatterCreated:
    """Return the `matter.created` in `body`, as `parse_envelope` does."""
    return parse_envelope(body, MatterCreated)


def pointer_body(body: str, envelope: type[Envelope] = MatterCreated) -> str:
    """Return `body` cut down to what may be stored: the pointer fields that are valid.

    Everything else is replaced by a mark, so that `parse_envelope` refuses the result at the
    same places, and nothing that a stranger wrote reaches run config. For a valid body the result
    parses to the same envelope.

    Args:
        body: the text of one SQS message, of any shape.
        envelope: what the queue's consumer reads.
    """
    try:
        value = _load_object(body)
    except EnvelopeRefusedError as refused:
        return f"<refused: {', '.join(refused.places)}>"
    model = _on_the_bus(envelope) if "detail-type" in value else envelope
    bad: set[tuple[int | str, ...]] = set()
    try:
        model.model_validate(value)
    except ValidationError as error:
        bad = {item["loc"] for item in error.errors(include_input=False, include_context=False)}
    return json.dumps(_pointers(model, value, (), bad))


def _pointers(
    model: type[BaseModel],
    value: object,
    at: tuple[int | str, ...],
    bad: set[tuple[int | str, ...]],
) -> object:
    if at in bad or not isinstance(value, dict):
        return _REFUSED
    kept: dict[str, object] = {}
    for name, field in model.model_fields.items():
        key, inner = field.alias or name, field.annotation
        if key not in value:
            continue
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            kept[key] = _pointers(inner, value[key], (*at, key), bad)
        else:
            kept[key] = _REFUSED if (*at, key) in bad else value[key]
    forbids = model.model_config.get("extra") == "forbid"
    strangers = len(value.keys() - kept.keys()) if forbids else 0
    if "traceparent" in kept or "tracestate" in kept:
        trace = TraceContext.of(value.get("traceparent"), value.get("tracestate"))
        if strangers or bad:
            # It is refused, and a tracestate is a text of the sender's own.
            trace = trace._replace(tracestate=None)
        kept |= {key: text for key, text in trace._asdict().items() if key in kept}
    if strangers:
        kept[_UNKNOWN] = strangers
    return kept


_REFUSED: Final = "<refused>"
_UNKNOWN: Final = "<unknown>"


def _places(error: ValidationError) -> list[str]:
    places = []
    for item in error.errors(include_input=False, include_context=False, include_url=False):
        parts = [str(part) for part in item["loc"]]
        if item["type"] == "extra_forbidden":
            # The name of a field that nobody knows is the sender's text, not ours.
            parts[-1] = _UNKNOWN
        places.append(f"{'.'.join(parts)} ({item['type']})")
    return sorted(set(places))


def _load_object(body: str) -> dict[str, Any]:
    try:
        if len(body) > MAX_BODY_BYTES or len(body.encode()) > MAX_BODY_BYTES:
            raise _malformed(_TOO_LARGE)
    except UnicodeEncodeError:
        raise _malformed(_NOT_UTF_8) from None
    if body in _REFUSED_WHOLE:
        raise _malformed(_REFUSED_WHOLE[body])
    try:
        value = _DECODER.decode(body)
    except EnvelopeRefusedError:
        raise
    except (ValueError, RecursionError):
        raise _malformed(_NOT_JSON) from None
    if not isinstance(value, dict):
        raise _malformed(_NOT_AN_OBJECT)
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _malformed(_DUPLICATE_KEYS)
    if not _encodes("".join(value)):
        # pydantic stops at such a key and says nothing of the other fields.
        raise _malformed(_NOT_UNICODE)
    return value


def _encodes(keys: str) -> bool:
    return keys.isascii() or not any("\ud800" <= character <= "\udfff" for character in keys)


def _no_constant(_: str) -> Any:
    raise _malformed(_NOT_A_NUMBER)


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
