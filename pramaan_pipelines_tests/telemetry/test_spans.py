"""The closed registry of spans, and what a span may say."""

import json

import pytest
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.telemetry.propagation import (
    context_from_trace_context,
    link_from_trace_context,
    stamp_current_trace,
)
from pramaan_pipelines.telemetry.provider import MAX_BATCH_ROWS
from pramaan_pipelines.telemetry.spans import (
    REGISTRY,
    UNKNOWN,
    SpanName,
    UnregisteredSpanError,
    manual_span,
    mark_failed,
)
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.world import TRACEPARENT, TRACESTATE

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
REQUIRED = {SpanName.FRAMER_CONSUME: {"firm_id", "event.type"}}


def test_the_registry_holds_the_spans_of_the_stories_and_no_other() -> None:
    """ADR-124: the registry is closed."""
    assert {str(name) for name in REGISTRY} == {
        "functions.document_ingest_relay.batch",
        "functions.document_registration_relay.batch",
        "functions.domain_event_relay.batch",
        "functions.framer_trigger.consume",
    }
    assert set(REGISTRY) == set(SpanName)


@pytest.mark.parametrize("name", ["functions.other.batch", "", "FRAMER_CONSUME"])
def test_a_name_that_is_not_registered_is_an_error_and_no_span(
    record: TelemetryRecord, name: str
) -> None:
    with (
        pytest.raises(UnregisteredSpanError, match="not a registered span"),
        manual_span(record.telemetry.tracer, name),
    ):
        pytest.fail("the span opened")
    assert record.exporter.get_finished_spans() == ()


@pytest.mark.parametrize("name", list(SpanName))
def test_a_registered_span_is_a_consumer_and_says_unknown_until_it_knows(
    record: TelemetryRecord, name: SpanName
) -> None:
    with manual_span(record.telemetry.tracer, name) as span:
        assert get_current_span() is span
    (finished,) = record.spans(name)
    assert finished.kind is SpanKind.CONSUMER
    assert dict(finished.attributes or {}) == dict.fromkeys(REQUIRED.get(name, ()), UNKNOWN)
    assert finished.parent is None
    assert finished.status.status_code is StatusCode.UNSET


def test_a_registered_name_may_be_given_as_text(record: TelemetryRecord) -> None:
    with manual_span(record.telemetry.tracer, "functions.domain_event_relay.batch"):
        pass
    assert len(record.spans("functions.domain_event_relay.batch")) == 1


def test_a_span_without_a_parent_does_not_join_whatever_is_current(record: TelemetryRecord) -> None:
    with (
        record.telemetry.tracer.start_as_current_span("around"),
        manual_span(record.telemetry.tracer, SpanName.DOMAIN_EVENT_RELAY),
    ):
        pass
    (finished,) = record.spans(SpanName.DOMAIN_EVENT_RELAY)
    assert finished.parent is None


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_an_exception_marks_the_span_by_its_type_and_leaves_no_text(
    record: TelemetryRecord, error: type[BaseException]
) -> None:
    with (
        pytest.raises(error),
        manual_span(record.telemetry.tracer, SpanName.FRAMER_CONSUME),
    ):
        raise error("PRIVILEGED")
    (finished,) = record.spans(SpanName.FRAMER_CONSUME)
    assert finished.status.status_code is StatusCode.ERROR
    assert finished.status.description == error.__name__
    assert (finished.attributes or {})["error.type"] == error.__name__
    assert finished.events == ()
    assert "PRIVILEGED" not in json.dumps(json.loads(finished.to_json()))


def test_a_span_can_be_marked_without_an_exception(record: TelemetryRecord) -> None:
    with manual_span(record.telemetry.tracer, SpanName.DOMAIN_EVENT_RELAY) as span:
        mark_failed(span, "unavailable")
    (finished,) = record.spans(SpanName.DOMAIN_EVENT_RELAY)
    assert finished.status.description == "unavailable"


def test_a_stored_trace_is_linked_to_the_letter(record: TelemetryRecord) -> None:
    link = link_from_trace_context(TraceContext(TRACEPARENT, TRACESTATE))
    assert link is not None
    with manual_span(record.telemetry.tracer, SpanName.DOMAIN_EVENT_RELAY, links=[link]):
        pass
    (finished,) = record.spans(SpanName.DOMAIN_EVENT_RELAY)
    (found,) = finished.links
    assert format(found.context.trace_id, "032x") == TRACE_ID
    assert format(found.context.span_id, "016x") == "b7ad6b7169203331"
    assert found.context.trace_state.get("vendor") == "opaque"
    assert found.context.is_remote
    assert finished.context.trace_id != found.context.trace_id


@pytest.mark.parametrize(
    "traceparent",
    [
        None,
        "",
        "none",
        "PRIVILEGED",
        "ff" + TRACEPARENT[2:],
        "00-" + "0" * 32 + TRACEPARENT[35:],
        TRACEPARENT[:36] + "0" * 16 + "-03",
        TRACEPARENT + "-extra",
        "0" * 10_000,
    ],
)
def test_a_hostile_stored_trace_is_no_link_and_no_parent(traceparent: str | None) -> None:
    trace = TraceContext(traceparent, "PRIVILEGED \x00")
    assert link_from_trace_context(trace) is None
    assert context_from_trace_context(trace) is None


@pytest.mark.parametrize(
    ("tracestate", "kept"),
    [
        ("vendor=1,2nd=PRIVILEGED,tenant@system=3", {"vendor": "1", "tenant@system": "3"}),
        ("2nd=PRIVILEGED", {}),
        ("us@er@x=PRIVILEGED, vendor=1", {"vendor": "1"}),
        ("vendor=1,other=2,vendor=PRIVILEGED", {"vendor": "1", "other": "2"}),
        (",".join(f"k{n}={n}" for n in range(32)), {f"k{n}": str(n) for n in range(32)}),
    ],
)
def test_of_a_tracestate_what_the_sdk_does_not_take_is_left_out_and_not_logged(
    caplog: pytest.LogCaptureFixture, tracestate: str, kept: dict[str, str]
) -> None:
    """It would log the text of the first such member, and drop the others with it."""
    trace = TraceContext.of(TRACEPARENT, tracestate)
    assert trace.tracestate == tracestate
    link, context = link_from_trace_context(trace), context_from_trace_context(trace)
    assert link is not None
    assert link.context.trace_state.items() == kept.items()
    assert list(link.context.trace_state) == list(kept)
    assert get_current_span(context).get_span_context().trace_state == link.context.trace_state
    assert not caplog.records


@pytest.mark.parametrize("flags", ["00", "01", "02", "03"])
def test_eb04_a_trace_goes_through_a_span_and_comes_out_with_its_id_and_state(
    record: TelemetryRecord, flags: str
) -> None:
    parent = context_from_trace_context(TraceContext(TRACEPARENT[:-2] + flags, TRACESTATE))
    assert parent is not None
    with manual_span(record.telemetry.tracer, SpanName.FRAMER_CONSUME, parent=parent) as span:
        stamped = stamp_current_trace()
    assert stamped.trace_id == TRACE_ID
    assert stamped.tracestate == TRACESTATE
    assert stamped.traceparent is not None
    assert stamped.traceparent.split("-")[2] == format(span.get_span_context().span_id, "016x")
    assert TraceContext.of(*stamped) == stamped
    read = context_from_trace_context(stamped)
    assert get_current_span(read).get_span_context().trace_id == int(TRACE_ID, 16)


def test_eb04_the_flags_of_todays_root_spans_are_read_and_stamped(record: TelemetryRecord) -> None:
    with record.telemetry.tracer.start_as_current_span("root") as span:
        stamped = stamp_current_trace()
    assert stamped.traceparent is not None
    assert stamped.traceparent.endswith(format(span.get_span_context().trace_flags, "02x"))
    assert link_from_trace_context(stamped) is not None
    assert link_from_trace_context(TraceContext(TRACEPARENT)) is not None
    assert TRACEPARENT.endswith("-03")


def test_without_a_live_span_nothing_is_stamped() -> None:
    assert stamp_current_trace() == TraceContext()


def test_a_batch_of_the_largest_size_keeps_every_link(record: TelemetryRecord) -> None:
    """The SDK's own limit is 128."""
    assert MAX_BATCH_ROWS == 1000
    with manual_span(record.telemetry.tracer, SpanName.DOMAIN_EVENT_RELAY) as span:
        for number in range(1, MAX_BATCH_ROWS + 1):
            link = link_from_trace_context(
                TraceContext(f"00-{number:032x}-b7ad6b7169203331-03", None)
            )
            assert link is not None
            span.add_link(link.context)
    (finished,) = record.spans(SpanName.DOMAIN_EVENT_RELAY)
    assert {link.context.trace_id for link in finished.links} == set(range(1, MAX_BATCH_ROWS + 1))
    assert finished.dropped_links == 0
