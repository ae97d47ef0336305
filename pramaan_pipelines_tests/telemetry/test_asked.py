"""OTEL_* variables that are wrong: told once, without their value, and no error of the work."""

import logging
from collections.abc import Iterator
from logging.handlers import QueueHandler
from queue import Queue

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.util.re import parse_env_headers
from pydantic import SecretStr

from pramaan_pipelines.settings import ExportSettings, Signal
from pramaan_pipelines.telemetry import asked
from pramaan_pipelines_tests.support.collector import Collector, collector
from pramaan_pipelines_tests.telemetry.test_export import forked_and_said, named

SECRET = "hunter2-Geheim"
URL = "OTEL_EXPORTER_OTLP_ENDPOINT"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT"

GOES_ON: dict[str, tuple[str, str]] = {
    "links": ("OTEL_SPAN_EVENT_COUNT_LIMIT", "many"),
    "lengths": ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "-5"),
    "tracers": ("OTEL_PYTHON_TRACER_PROVIDER", "nobody"),
    "meters": ("OTEL_PYTHON_METER_PROVIDER", "nobody"),
    "exemplars": ("OTEL_METRICS_EXEMPLAR_FILTER", "some"),
    "no-number": (TIMEOUT, "nan"),
    "for-ever": (TIMEOUT, "inf"),
    "past-all-clocks": (TIMEOUT, "1e300"),
    "no-time": ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0"),
    "before-now": ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "-1"),
    "milliseconds": (TIMEOUT, "10000"),
    "a-word": (TIMEOUT, "soon"),
}
"""What is told, and goes on with the default."""

REFUSED: dict[str, tuple[str, str]] = {
    "no scheme": (URL, f"user:{SECRET}@collector"),
    "another scheme": (URL, f"grpc://user:{SECRET}@127.0.0.1:4317"),
    "half an address": (URL, f"http://user:{SECRET}@[::1"),
    "a port that is none": (URL, f"http://user:{SECRET}@127.0.0.1:port"),
    "a slash in the password": (URL, f"http://user:12/{SECRET}@127.0.0.1:4318"),
    "a hash in the password": (URL, f"http://user:1#{SECRET}@127.0.0.1:4318"),
    "a token in the query": (
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        f"http://127.0.0.1:1/v1/traces?token={SECRET}",
    ),
    "a space": (URL, f"http://127.0.0.1:1/ {SECRET}"),
    "a header without a name": (HEADERS, f"Bearer {SECRET}"),
    "a header with a colon": (HEADERS, f"authorization: {SECRET}"),
    "a header of two lines": (HEADERS, f"authorization=Bearer\n{SECRET}"),
    "a header of two lines, encoded": (HEADERS, f"authorization=Bearer%0A{SECRET}"),
    "a header with an umlaut": (HEADERS, f"authorization={SECRET}ä"),
    "a name with an umlaut": ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", f"näme={SECRET}"),
    "a header beyond Latin": (HEADERS, f"authorization={SECRET}%E2%82%AC"),
}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Collector]:
    with collector() as running:
        yield running


def test_a_value_that_cannot_be_used_is_told_once_and_the_default_taken(
    receiver: Collector,
) -> None:
    cases = [
        ("twice", receiver.environment() | {"OTEL_SERVICE_NAME": name, variable: value})
        for name, (variable, value) in GOES_ON.items()
    ]
    _, said = forked_and_said(*cases)
    for name in GOES_ON:
        assert min(named(receiver, name)) > 0, name
    for variable in {variable for variable, _ in GOES_ON.values()}:
        wrong = [name for name, (other, _) in GOES_ON.items() if other == variable]
        told = [line for line in said.splitlines() if line.startswith(variable)]
        assert len(told) == len(wrong), (variable, said)


def test_what_would_be_shown_for_being_wrong_is_refused_without_being_shown(
    receiver: Collector,
) -> None:
    cases = [("twice", receiver.environment() | dict([pair])) for pair in REFUSED.values()]
    answers, said = forked_and_said(*cases)
    assert SECRET not in said
    assert "opentelemetry" not in said
    for what, (variable, _), answer in zip(REFUSED, REFUSED.values(), answers, strict=True):
        # A variable of one signal leaves the other as it is: the exporter is loaded for it.
        assert answer["exporter"] == any(s in variable for s in ("TRACES", "METRICS")), what
        signal = "metrics" if "METRICS" in variable else "traces"
        assert f"{signal} are not exported: {variable} " in said, what
    assert said.count("traces are not exported") == len(REFUSED) - 1


@settings(deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=40) | st.from_regex(r"[\w%=, ]{0,40}"))
def test_headers_that_are_taken_are_taken_by_the_sdk_in_silence(text: str) -> None:
    wanted = ExportSettings(otel_exporter_otlp_headers=SecretStr(text))
    try:
        found = asked.headers(wanted, "traces")
    except ValueError:
        return
    heard = Queue[logging.LogRecord]()
    logger, handler = logging.getLogger("opentelemetry.util.re"), QueueHandler(heard)
    logger.addHandler(handler)
    try:
        assert parse_env_headers(text, liberal=True) == found
    finally:
        logger.removeHandler(handler)
    assert heard.empty()
    # And by the client below it, which encodes them so.
    requests.Request("POST", "http://h", headers=found).prepare()
    assert all(
        value.encode("latin-1") == value.strip().encode("latin-1") for value in found.values()
    )


@pytest.mark.parametrize("signal", asked.SIGNALS)
def test_the_variable_of_the_signal_is_named_where_it_is_the_one(signal: Signal) -> None:
    own = ExportSettings.model_validate(
        {f"otel_exporter_otlp_{signal}_endpoint": f"ftp://{SECRET}"}
    )
    (told,) = asked.refusals(own, signal)
    assert f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT is no address" in told
    both = ExportSettings(otel_exporter_otlp_endpoint=SecretStr("http://host:4318/"))
    assert asked.endpoint(both, signal) == f"http://host:4318/v1/{signal}"
    assert not list(asked.refusals(both, signal))
    assert SECRET not in repr(own)
