"""What a framer run leaves in telemetry and logs: one span, one duration, one line."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, MetricReader, MetricsData
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.framer import run_request
from pramaan_pipelines_tests.healing.bench import Kept
from pramaan_pipelines_tests.orchestration.bench import FramerRun, Rail
from pramaan_pipelines_tests.orchestration.test_framer_failures import mine, the_span
from pramaan_pipelines_tests.support.propagators import speaking_xray
from pramaan_pipelines_tests.support.world import TRACEPARENT, body, envelope

TRACE_ID = TRACEPARENT.split("-")[1]
OF_DAGSTER = ("Skipping step", "Dependencies for step")
HEADER = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


class Keeping(MetricReader):
    """Keeps each point that a flush hands over, as a collector would."""

    def __init__(self) -> None:
        super().__init__(preferred_temporality={Histogram: AggregationTemporality.DELTA})
        self.points: list[Any] = []

    def _receive_metrics(
        self, metrics_data: MetricsData, timeout_millis: float = 0, **_: Any
    ) -> None:
        del timeout_millis
        self.points += [
            point
            for resource in metrics_data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == "pramaan.framer_trigger.duration"
            for point in metric.data.data_points
        ]

    def shutdown(self, timeout_millis: float = 0, **_: Any) -> None:
        pass


@pytest.fixture(scope="session")
def all_points() -> list[Any]:
    """What this process's own meter provider hands over of the framer's durations, from now on."""
    reader = Keeping()
    metrics.set_meter_provider(MeterProvider([reader]))
    return reader.points


@pytest.fixture
def handed_over(all_points: list[Any]) -> list[Any]:
    all_points.clear()
    return all_points


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[list[dict[str, Any]]]:
    """The fields of every outcome line of the process log."""
    lines: list[dict[str, Any]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append({**record.__dict__["pramaan"], "level": record.levelname})

    handler, logger = Keep(), logging.getLogger("pramaan_pipelines.outcomes")
    logger.addHandler(handler)
    caplog.set_level(logging.INFO, "pramaan_pipelines")
    yield lines
    logger.removeHandler(handler)


def told_in_the_event_log(run: FramerRun) -> list[str]:
    """Return what stands in Dagster's event log in our words."""
    return [
        entry.user_message
        for entry in run.instance.all_logs(run.result.run_id)
        if entry.dagster_event is None and not entry.user_message.startswith(OF_DAGSTER)
    ]


@pytest.mark.usefixtures("no_pause")
def test_every_end_has_one_duration_by_outcome_one_line_and_one_summary(
    rail: Rail,
    spans: InMemorySpanExporter,
    handed_over: list[Any],
    heard: list[dict[str, Any]],
) -> None:
    matter, text = mine(rail)
    blocked = envelope(
        rail.world.firm_without_consent, rail.world.matter(rail.world.firm_without_consent)
    )
    runs = {
        "started": rail.deliver(text),
        "duplicate": rail.deliver(text),
        "consent_blocked": rail.deliver(blocked.model_dump_json()),
    }
    rail.agent.failures = 100
    runs["failed"] = rail.deliver(mine(rail)[1])
    # Last, for it is handed back at once.
    runs["refused"] = rail.deliver("PRIVILEGED, and no envelope")

    exported = spans.get_finished_spans()
    assert [span.name for span in exported] == ["functions.framer_trigger.consume"] * len(runs)
    assert len(handed_over) == len(runs), "one duration a run, handed over at its end"
    points = {point.attributes["outcome"]: point for point in handed_over}
    assert {outcome: point.count for outcome, point in points.items()} == dict.fromkeys(runs, 1)
    kinds = {outcome: point.attributes.get("error.type") for outcome, point in points.items()}
    assert kinds == {
        "started": None,
        "duplicate": None,
        "consent_blocked": None,
        "refused": "malformed",
        "failed": "ConnectionError",
    }
    labels = {"service", "environment", "outcome", "error.type"}
    assert all(set(point.attributes) <= labels for point in points.values())
    traces = {span.context.trace_id for span in exported if span.context}
    assert {e.trace_id for point in points.values() for e in point.exemplars} <= traces
    assert all(point.exemplars for point in points.values())

    assert [line["outcome"] for line in heard] == list(runs)
    assert [line["gate"] for line in heard] == ["release", "dedupe", "consent", "invoke", "parse"]
    assert [line.get("reason") for line in heard] == [None] * 3 + ["ConnectionError", "malformed"]
    assert [line["run_id"] for line in heard] == [run.result.run_id for run in runs.values()]
    assert [line["level"] for line in heard] == ["INFO"] * 3 + ["WARNING"] * 2
    with_event = [line for line in heard if line["outcome"] != "refused"]
    assert all(UUID(line["event_id"]) and line["trace_id"] == TRACE_ID for line in with_event)
    assert "event_id" not in heard[4]
    assert str(matter) not in str(heard)
    assert str(rail.world.firm_a) not in str(heard)
    assert "PRIVILEGED" not in str(heard)

    for outcome in ("started", "duplicate", "consent_blocked"):
        (summary,) = told_in_the_event_log(runs[outcome])
        assert f"outcome={outcome}" in summary
    assert told_in_the_event_log(runs["refused"]) == []  # the red gate says it


def test_a_re_execution_s_span_and_line_are_whole_without_the_parse_gate(
    rail: Rail,
    spans: InMemorySpanExporter,
    heard: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = Kept(rail.instance)
    _, text = mine(rail)
    rail.send(text)
    rail.agent.failures = 4
    monkeypatch.setattr("dagster._core.definitions.policy.random", lambda: 0.0)
    kept.from_failure(kept.first(run_request(rail.receive())))
    _, second = spans.get_finished_spans()
    assert second.attributes == {"firm_id": str(rail.world.firm_a), "event.type": "matter.created"}
    assert [(line["outcome"], line["trace_id"]) for line in heard] == [
        ("failed", TRACE_ID),
        ("started", TRACE_ID),
    ]
    assert heard[0]["event_id"] == heard[1]["event_id"]


@pytest.fixture
def xray() -> Iterator[None]:
    """What OTEL_PROPAGATORS=xray,tracecontext makes of a process."""
    with speaking_xray():
        yield


@pytest.mark.usefixtures("xray")
def test_the_message_s_own_header_is_the_parent_only_where_the_envelope_has_none(
    rail: Rail, spans: InMemorySpanExporter
) -> None:
    firm = rail.world.firm_a
    untraced = envelope(firm, rail.world.matter(firm), traceparent=None).model_dump_json()
    cases = {
        untraced: (HEADER, "5759e988bd862e3fe1be46a994272793"),
        body(firm, rail.world.matter(firm)): (HEADER, TRACE_ID),
        "no envelope": (HEADER, "5759e988bd862e3fe1be46a994272793"),
        untraced + " ": ("PRIVILEGED;Root=1-x", None),
    }
    for text, (header, expected) in cases.items():
        rail.send(text)
        request = run_request(replace(rail.receive(), trace_header=header))
        assert request.tags.get(names.TAG_TRACE) == expected
        assert header not in str(request.run_config)
        spans.clear()
        rail.launch(request)
        parent = the_span(spans).parent
        assert (f"{parent.trace_id:032x}" if parent else None) == expected
    *_, last = rail.agent.payloads
    assert last.traceparent is not None
