"""X-Ray's header beside the stored trace, in both directions, where OTEL_PROPAGATORS names it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import propagate
from opentelemetry.propagators.aws import AwsXRayPropagator

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.eventbridge import EventBusPublisher
from pramaan_pipelines.messaging.publisher import OutboundMessage
from pramaan_pipelines.messaging.sqs import QueueClient
from pramaan_pipelines.telemetry.propagation import trace_from_xray_header, xray_header
from pramaan_pipelines_tests.support.aws import settings_for
from pramaan_pipelines_tests.support.propagators import speaking_xray
from pramaan_pipelines_tests.support.stub import Stub
from pramaan_pipelines_tests.support.world import TRACEPARENT, TRACESTATE

HEADER = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
AS_W3C = "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01"
STORED = TraceContext(TRACEPARENT, TRACESTATE)
STORED_HEADER = "Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1"


@pytest.fixture
def xray() -> Iterator[None]:
    """What OTEL_PROPAGATORS=xray,tracecontext makes of a process."""
    with speaking_xray():
        yield


def sent(stub: Stub, trace: TraceContext) -> tuple[dict[str, Any], dict[str, Any]]:
    """Send one message to a queue and to a bus; returns both entries as they went out."""
    settings, message = settings_for(stub.endpoint_url), OutboundMessage("id", "t", "{}", trace)
    QueueClient(client("sqs", settings), "http://sqs.invalid/1/q").send([message], deadline=1e12)
    EventBusPublisher(client("events", settings), "bus").send([message], deadline=1e12)
    to_queue, to_bus = [request["Entries"][0] for request in stub.requests]
    return to_queue, to_bus


@pytest.mark.usefixtures("xray")
def test_a_stored_trace_goes_out_as_the_services_own_header_too(stub: Stub) -> None:
    to_queue, to_bus = sent(stub, STORED)
    assert to_queue["MessageSystemAttributes"] == {
        "AWSTraceHeader": {"DataType": "String", "StringValue": STORED_HEADER}
    }
    assert to_queue["MessageAttributes"]["traceparent"]["StringValue"] == TRACEPARENT
    assert to_bus["TraceHeader"] == STORED_HEADER


@pytest.mark.usefixtures("xray")
@pytest.mark.parametrize(
    "traceparent", [None, "", "PRIVILEGED", "00-" + "0" * 32 + TRACEPARENT[35:]]
)
def test_no_header_goes_out_without_a_valid_trace(stub: Stub, traceparent: str | None) -> None:
    to_queue, to_bus = sent(stub, TraceContext(traceparent, "PRIVILEGED"))
    assert "MessageSystemAttributes" not in to_queue
    assert "TraceHeader" not in to_bus
    assert "PRIVILEGED" not in json.dumps([to_queue, to_bus])


def test_no_header_goes_out_where_nobody_asked_for_it(stub: Stub) -> None:
    to_queue, to_bus = sent(stub, STORED)
    assert "MessageSystemAttributes" not in to_queue
    assert "TraceHeader" not in to_bus
    assert trace_from_xray_header(HEADER) == TraceContext()


@pytest.mark.usefixtures("xray")
def test_a_header_that_arrives_is_a_context_like_any_other() -> None:
    assert trace_from_xray_header(HEADER) == TraceContext(AS_W3C)
    assert trace_from_xray_header(HEADER + ";Lineage=a:b|c:0") == TraceContext(AS_W3C)
    assert trace_from_xray_header(xray_header(STORED)).trace_id == STORED.trace_id


@pytest.mark.usefixtures("xray")
@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0",
        "Root=1-00000000-000000000000000000000000;Parent=53995c3f42cd8ad8;Sampled=1",
        HEADER.replace("5759", "PRIV"),
        HEADER.replace("Sampled=1", "Sampled=?"),
        "=;=;=",
        "PRIVILEGED \x00" * 10_000,
    ],
)
def test_a_hostile_header_is_no_context(header: str | None) -> None:
    assert trace_from_xray_header(header) == TraceContext()


@pytest.mark.usefixtures("xray")
@settings(max_examples=50, deadline=None)
@given(st.one_of(st.text(), st.from_regex(r"Root=1-.{8}-.{24};Parent=.{16};Sampled=.")))
def test_no_header_is_an_error(header: str) -> None:
    found = trace_from_xray_header(header)
    assert TraceContext.of(*found) == found


class Broken(AwsXRayPropagator):
    """A propagator that a host has installed, with a fault."""

    def extract(self, *_: Any, **__: Any) -> Any:
        raise ValueError("broken")

    def inject(self, *_: Any, **__: Any) -> None:
        raise ValueError("broken")


@pytest.mark.usefixtures("xray")
def test_a_propagator_that_is_broken_loses_no_message(stub: Stub) -> None:
    propagate.set_global_textmap(Broken())
    assert trace_from_xray_header(HEADER) == TraceContext()
    to_queue, to_bus = sent(stub, STORED)
    assert "MessageSystemAttributes" not in to_queue
    assert "TraceHeader" not in to_bus
    assert to_queue["MessageAttributes"]["traceparent"]["StringValue"] == TRACEPARENT


def fresh(propagators: str) -> str:
    """Say what a fresh interpreter makes of a stored trace."""
    code = (
        "from pramaan_pipelines.contracts.trace import TraceContext\n"
        "from pramaan_pipelines.telemetry.propagation import trace_from_xray_header, xray_header\n"
        f"print(xray_header(TraceContext({TRACEPARENT!r})), trace_from_xray_header({HEADER!r})[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], "OTEL_PROPAGATORS": propagators},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip() + (
        "; told" if "OTEL_PROPAGATORS cannot be used" in done.stderr else ""
    )


def test_the_deployments_variable_is_what_turns_it_on() -> None:
    assert fresh("xray,tracecontext") == f"{STORED_HEADER} {AS_W3C}"


def test_a_propagator_that_is_not_installed_is_told_and_stops_nothing() -> None:
    """OpenTelemetry itself raises at import, and nothing would load."""
    assert fresh("xray,b3") == "None None; told"
