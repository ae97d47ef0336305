"""Export: what the standard variables say, and what it costs when a collector is no use."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from pramaan_pipelines_tests.support.collector import (
    Collector,
    answering,
    black_hole,
    collector,
    dripping,
    nobody,
)

TIMEOUT = 1.5
BATCHES = 4
"""The SDK keeps 2,048 spans, and sends 512 at a time; each may take the time-out."""


def forked(*cases: tuple[str, dict[str, str]]) -> list[dict[str, Any]]:
    """Run each case in a process of its own, all at once."""
    return forked_and_said(*cases)[0]


def forked_and_said(*cases: tuple[str, dict[str, str]]) -> tuple[list[dict[str, Any]], str]:
    """Do so, and return what all of them wrote to standard error too."""
    asked = [{"does": does, "environment": environment} for does, environment in cases]
    done = subprocess.run(
        [sys.executable, "-m", "pramaan_pipelines_tests.telemetry.forks", json.dumps(asked)],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    assert not any("raised" in answer for answer in answers), answers
    return answers, done.stderr


@pytest.fixture(scope="module")
def receiver() -> Iterator[Collector]:
    with collector() as running:
        yield running


def named(receiver: Collector, name: str) -> tuple[int, int]:
    """Return how many spans and how many points a service of that name has sent."""
    spans = [s for s in receiver.spans() if s.resource.get("service.name") == name]
    points = [p for p in receiver.points() if p.resource.get("service.name") == name]
    return len(spans), len(points)


CASES: dict[str, tuple[dict[str, str], tuple[bool, bool]]] = {
    "both": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "URL"}, (True, True)),
    "with-a-slash": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "URL/"}, (True, True)),
    "traces-only": ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "URL/v1/traces"}, (True, False)),
    "metrics-only": ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "URL/v1/metrics"}, (False, True)),
    "no-traces": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_TRACES_EXPORTER": "none"},
        (False, True),
    ),
    "no-metrics": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_METRICS_EXPORTER": "none"},
        (True, False),
    ),
    "named-otlp": (
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "URL",
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_METRICS_EXPORTER": "OTLP",
        },
        (True, True),
    ),
    "disabled": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_SDK_DISABLED": "true"},
        (False, False),
    ),
    "another-exporter": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_TRACES_EXPORTER": "zipkin"},
        (False, True),
    ),
    "another-protocol": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        (False, False),
    ),
    "absurd": (
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "URL",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "soon",
            "OTEL_METRIC_EXPORT_INTERVAL": "-1",
            "OTEL_BSP_MAX_QUEUE_SIZE": "-1",
        },
        (False, False),
    ),
    "unsampled": (
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "URL", "OTEL_TRACES_SAMPLER": "always_off"},
        (False, True),
    ),
}


def test_the_standard_variables_decide_what_is_exported(receiver: Collector) -> None:
    cases = [
        (
            "run",
            {n: v.replace("URL", receiver.url) for n, v in variables.items()}
            | {"OTEL_SERVICE_NAME": name},
        )
        for name, (variables, _) in CASES.items()
    ]
    answers = dict(zip(CASES, forked(*cases), strict=True))
    assert not answers["disabled"]["exporter"]
    found = {name: tuple(n > 0 for n in named(receiver, name)) for name in CASES}
    assert found == {name: expected for name, (_, expected) in CASES.items()}


def test_with_nothing_set_nothing_is_exported_or_even_loaded(receiver: Collector) -> None:
    (silent,), before = forked(("run", {})), len(receiver.requests)
    assert (silent["exporter"], silent["meters"], silent["threads"]) == (
        False,
        "_ProxyMeterProvider",
        1,
    )
    assert len(receiver.requests) == before
    # The looks above see what they should: with an endpoint they find something.
    (heard,) = forked(("run", receiver.environment()))
    assert heard["exporter"]
    assert heard["meters"] == "MeterProvider"
    assert heard["threads"] > 1


def test_who_reports_is_told_by_the_standard_variables(receiver: Collector) -> None:
    forked(
        ("run", receiver.environment()),
        (
            "run",
            receiver.environment()
            | {
                "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=other,team=a%20team",
                "OTEL_SERVICE_NAME": "by-name",
                "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=one",
            },
        ),
    )
    by_service = {span.resource["service.name"]: span.resource for span in receiver.spans()}
    assert by_service["pramaan-pipelines"]["deployment.environment.name"] == "test"
    assert by_service["by-name"]["deployment.environment.name"] == "other"
    assert by_service["by-name"]["team"] == "a team"
    (duration,) = [
        point
        for point in receiver.points("pramaan.domain_event_relay.duration")
        if point.resource["service.name"] == "by-name"
    ]
    assert duration.labels == {"service": "by-name", "environment": "test"}
    assert any(headers.get("x-tenant") == "one" for _, headers in receiver.requests)


def test_short_processes_report_deltas_unless_the_environment_prefers_otherwise(
    receiver: Collector,
) -> None:
    forked(
        ("run", receiver.environment() | {"OTEL_SERVICE_NAME": "deltas"}),
        (
            "run",
            receiver.environment()
            | {
                "OTEL_SERVICE_NAME": "sums",
                "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "cumulative",
            },
        ),
    )
    found = {p.resource["service.name"]: p.is_delta for p in receiver.points("pramaan.relay.rows")}
    assert (found["deltas"], found["sums"]) == (True, False)


def test_setting_up_again_exports_nothing_twice(receiver: Collector) -> None:
    forked(("twice", receiver.environment() | {"OTEL_SERVICE_NAME": "again"}))
    spans = [s for s in receiver.spans() if s.resource["service.name"] == "again"]
    assert len({s.span_id for s in spans}) == len(spans) == 3
    rows = [
        p
        for p in receiver.points("pramaan.relay.rows")
        if p.resource.get("service.name") == "again"
    ]
    assert sum(point.value for point in rows) == 3


def test_a_fork_after_the_set_up_loses_and_doubles_no_span(receiver: Collector) -> None:
    forked(("fork", receiver.environment() | {"OTEL_SERVICE_NAME": "forked"}))
    spans = [s for s in receiver.spans() if s.resource["service.name"] == "forked"]
    assert len({s.span_id for s in spans}) == len(spans) == 3
    # Two processes on one kept connection would read each other's answers.
    assert {headers["connection"] for _, headers in receiver.requests} == {"close"}


def test_a_hosts_own_provider_stays_as_it_is(receiver: Collector) -> None:
    (answer,) = forked(("host", receiver.environment() | {"OTEL_SERVICE_NAME": "host"}))
    assert answer["kept"]
    assert answer["processors"] == 0
    assert named(receiver, "host")[0] == 0


def test_a_collector_that_is_no_use_costs_the_time_out_and_nothing_else() -> None:
    """The SDK alone would wait for each batch, and for ever on one that answers byte by byte."""
    with ExitStack() as running:
        urls = {
            "takes all": running.enter_context(collector()).url,
            "refuses": running.enter_context(nobody()),
            "takes and never answers": running.enter_context(black_hole()),
            "answers byte by byte": running.enter_context(dripping()),
            "is overloaded": running.enter_context(answering(503, b"<html>later</html>")),
            "answers garbage": running.enter_context(answering(200, b"\xff" * 100_000)),
            "wants no protobuf": running.enter_context(answering(415, b"<html>no</html>")),
        }
        asked = {"OTEL_EXPORTER_OTLP_TIMEOUT": str(TIMEOUT)}
        answers = dict(
            zip(
                urls,
                forked(
                    *(("flood", asked | {"OTEL_EXPORTER_OTLP_ENDPOINT": u}) for u in urls.values())
                ),
                strict=True,
            )
        )
    for what, answer in answers.items():
        assert answer["exporter"], what
        # A span's end never waits: the work takes as long as with a collector that is in order.
        assert answer["worked"] < 3 * answers["takes all"]["worked"] + TIMEOUT, what
        assert answer["flushed"] < BATCHES * TIMEOUT / 2, what
    assert not answers["takes and never answers"]["in_time"]
    assert not answers["answers byte by byte"]["in_time"]
    assert answers["answers garbage"]["in_time"]


@pytest.mark.long
def test_a_run_of_dagster_ends_well_and_in_time_whatever_the_collector_does() -> None:
    run = {
        "PRAMAAN_ENVIRONMENT": "test",
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "OTEL_EXPORTER_OTLP_TIMEOUT": str(TIMEOUT),
    }
    with black_hole() as hole, dripping() as drip:
        silent, held, dripped = forked(
            ("dagster", run),
            ("dagster", run | {"OTEL_EXPORTER_OTLP_ENDPOINT": hole}),
            ("dagster", run | {"OTEL_EXPORTER_OTLP_ENDPOINT": drip}),
        )
    for answer in (silent, held, dripped):
        assert answer["success"]
        assert answer["ending"] < silent["ending"] + BATCHES * TIMEOUT / 2
