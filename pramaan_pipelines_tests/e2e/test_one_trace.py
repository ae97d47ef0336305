"""One trace across processes: the application, the relays' runs, the framer's, and the agent.

The receiver is an OTLP server of the test's own; nothing here looks into a process.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pramaan_pipelines.contracts.envelopes import DocumentEnvelope
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.telemetry.metrics import (
    REGISTRY,
    SECONDS_BUCKETS,
    CountMetric,
    DurationMetric,
)
from pramaan_pipelines.telemetry.spans import SpanName
from pramaan_pipelines_tests.e2e.live import Live
from pramaan_pipelines_tests.support.collector import Collector, Received, collector
from pramaan_pipelines_tests.watch.bench import job

pytestmark = [pytest.mark.e2e, pytest.mark.long]

ROWS = 2
PRODUCER = "POST /matters"
CONSUME = "functions.framer_trigger.consume"
RELAYS = {
    "ingest": "functions.document_ingest_relay.batch",
    "registration": "functions.document_registration_relay.batch",
    "event": "functions.domain_event_relay.batch",
}
MAX_SERIES = 40


@pytest.fixture
def receiver() -> Iterator[Collector]:
    with collector() as running:
        yield running


def produce(live: Live, receiver: Collector) -> list[dict[str, str]]:
    """Let the application write, in a process of its own; returns what it made."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pramaan_pipelines_tests.e2e.producer"),
            *(str(live.world.firm_a), str(ROWS)),
        ],
        env={**os.environ, **live.variables, **receiver.environment(), "OTEL_SERVICE_NAME": "app"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made: list[dict[str, str]] = json.loads(done.stdout)
    return made


def processes_lines(live: Live) -> list[dict[str, Any]]:
    """Return the JSON lines of the process log, among what Dagster prints."""
    text = (live.home / "daemon.log").read_text()
    found = [json.loads(line) for line in text.splitlines() if line.startswith('{"time"')]
    assert found
    return found


def batches(receiver: Collector, relay: str) -> list[Received]:
    """Return the relay's spans that had rows."""
    return [span for span in receiver.spans(relay) if span.links]


def test_one_trace_from_the_producer_to_the_agent_and_every_number_of_the_runs(
    live: Live, receiver: Collector
) -> None:
    live.variables |= {
        **receiver.environment(),
        "PRAMAAN_LOG_FORMAT": "json",
        "OTEL_PROPAGATORS": "xray,tracecontext",
    }
    made = produce(live, receiver)
    live.send("no envelope at all")  # refused, so that nothing of it is known
    job(live.world, "running", claimed=600)  # a dead worker's, for the sweep

    def all_there() -> bool:
        metrics = {point.metric for point in receiver.points()}
        consumed = {span.trace_id for span in receiver.spans(CONSUME)}
        return (
            metrics >= {*DurationMetric, *CountMetric}
            and {one["trace_id"] for one in made} <= consumed
            and any(span.attributes["firm_id"] == "unknown" for span in receiver.spans(CONSUME))
        )

    with live.daemon():
        live.wait_until(all_there, seconds=150)
        live.wait_until(lambda: len(live.ended("started")) >= ROWS)

    check_the_road_of_the_matters(live, receiver, made)
    check_the_road_of_the_documents(live, receiver, made)
    check_spans(receiver)
    check_points(receiver)
    check_lines(live, made)


def check_the_road_of_the_matters(
    live: Live, receiver: Collector, made: list[dict[str, str]]
) -> None:
    """The producer's trace id, span by span, to the payload that the agent logged."""
    invoked = {
        line["traceparent"].split("-")[1]: line
        for line in processes_lines(live)
        if line.get("message") == "agent stub invoked"
    }
    for one in made:
        (producer,) = [s for s in receiver.spans(PRODUCER) if s.trace_id == one["trace_id"]]
        assert producer.span_id == one["span_id"]
        assert producer.resource["service.name"] == "app"
        (consume,) = [s for s in receiver.spans(CONSUME) if s.trace_id == one["trace_id"]]
        assert consume.parent_id == producer.span_id
        assert consume.resource["service.name"] == "pramaan-pipelines"
        assert consume.attributes == {
            "firm_id": str(live.world.firm_a),
            "event.type": "matter.created",
        }
        # What the agent received continues the consume span.
        told = invoked[one["trace_id"]]
        assert told["traceparent"].split("-")[2] == consume.span_id
        (run,) = live.world.runs(live.world.one("SELECT %s::uuid", one["matter"]))
        assert told["agent_run_id"] == run["id"]
        assert run["traceparent"] == told["traceparent"]


def check_the_road_of_the_documents(
    live: Live, receiver: Collector, made: list[dict[str, str]]
) -> None:
    """The same up to the registrar's queue, whose consumer is another team's."""
    for kind, relay in RELAYS.items():
        links = Counter(link for span in batches(receiver, relay) for link in span.links)
        assert links == Counter((one["trace_id"], one["span_id"]) for one in made), kind
    url = live.queue_url.replace("framer-events", "documents-registration")
    queue = QueueConsumer(live.sqs, url)
    found = [DocumentEnvelope.model_validate_json(m.body) for m in queue.receive(10, 2)]
    assert {str(envelope.event_id): envelope.trace.trace_id for envelope in found} == {
        one["registration"]: one["trace_id"] for one in made
    }
    for envelope in found:
        assert TraceContext.of(*envelope.trace) == envelope.trace
        assert envelope.traceparent is not None
        assert envelope.traceparent.split("-")[2] in {one["span_id"] for one in made}


def check_spans(receiver: Collector) -> None:
    """Only registered names; each a consumer, with its required attributes; one a run."""
    ours = [s for s in receiver.spans() if s.resource["service.name"] != "app"]
    assert {span.name for span in ours} == {*SpanName}
    assert {span.kind for span in ours} == {"CONSUMER"}
    assert len({span.span_id for span in ours}) == len(ours)
    for span in receiver.spans(CONSUME):
        assert {"firm_id", "event.type"} <= set(span.attributes)
    refused = [s for s in receiver.spans(CONSUME) if s.error == "malformed"]
    assert refused
    for span in refused:
        assert span.parent_id == ""
        assert span.attributes["firm_id"] == span.attributes["event.type"] == "unknown"
    for span in ours:
        assert "PRIVILEGED" not in str(span)


def check_points(receiver: Collector) -> None:
    """Every number of the runs, with its labels, its unit, its buckets and its trace."""
    points = receiver.points()
    assert {point.metric for point in points} == {*DurationMetric, *CountMetric}
    for point in points:
        spec = REGISTRY[point.metric]
        assert set(spec.labels) <= set(point.labels) <= {*spec.labels, *spec.at_times}, point
        assert point.unit == spec.unit
        assert point.is_delta
    series = {(p.metric, tuple(sorted(p.labels.items()))) for p in points}
    assert len(series) <= MAX_SERIES
    traces = {span.trace_id for span in receiver.spans()}
    for metric in DurationMetric:
        for point in receiver.points(metric):
            assert point.bounds == SECONDS_BUCKETS
            assert point.exemplars
            assert set(point.exemplars) <= traces
    # One duration a span, whichever process it was.
    for metric, name in zip(DurationMetric, SpanName, strict=True):
        assert sum(p.value for p in receiver.points(metric)) == len(receiver.spans(name))
    rows: Counter[tuple[str, str]] = Counter()
    for point in receiver.points(CountMetric.RELAY_ROWS):
        rows[point.labels["lane"], point.labels["outcome"]] += int(point.value)
    assert rows == {
        ("document_ingest_relay", "sent"): ROWS,
        ("document_registration_relay", "sent"): ROWS,
        ("domain_event_relay", "sent"): ROWS,
    }
    assert sum(p.value for p in receiver.points(CountMetric.FRAME_JOBS_SWEPT)) == 1
    outcomes = {p.labels["outcome"] for p in receiver.points(DurationMetric.FRAMER_TRIGGER)}
    assert {"started", "refused"} <= outcomes


def check_lines(live: Live, made: list[dict[str, str]]) -> None:
    """One line an outcome in the process log, once, and nothing of an envelope but its ids."""
    lines = [line for line in processes_lines(live) if "outcome" in line]
    told = Counter((line.get("event_id"), line["outcome"]) for line in lines)
    for one in made:
        for kind in RELAYS:
            assert told[one[kind], "sent"] == 1
        assert told[one["event"], "started"] == 1
    for line in lines:
        if "event_id" in line:
            assert re.fullmatch("[0-9a-f]{32}", line["trace_id"])
            assert ("lane" in line) != ("gate" in line)
    text = json.dumps(processes_lines(live))
    assert str(live.world.firm_a) not in text
    assert "PRIVILEGED" not in text
    assert not any(one["matter"] in text for one in made)
