"""`pramaan doctor` on OTEL_*: what is not exported, and why; a collector that does not take it."""

import json
from http import HTTPStatus

import pytest

from pramaan_pipelines.cli import main
from pramaan_pipelines.doctor.exported import NOTHING_ASKED
from pramaan_pipelines_tests.operations.test_doctor import ALL_WELL, by_name, only_red
from pramaan_pipelines_tests.support.collector import answering, collector, nobody

pytestmark = pytest.mark.usefixtures("configured", "world")

SECRET = "hunter2-Geheim"
URL = "OTEL_EXPORTER_OTLP_ENDPOINT"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"


@pytest.mark.parametrize("name", ["OTEL_SDK_DISABLED", None])
def test_nothing_asked_for_is_no_fault(monkeypatch: pytest.MonkeyPatch, name: str | None) -> None:
    if name:
        monkeypatch.setenv(name, "true")
        monkeypatch.setenv(URL, "http://127.0.0.1:1")
    check = by_name()["telemetry"]
    assert (check.passed, check.told) == (True, NOTHING_ASKED)


def test_a_collector_that_takes_it_is_green_and_is_asked_as_the_exporter_would(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with collector() as receiver:
        monkeypatch.setenv(URL, f"{receiver.url}/")
        monkeypatch.setenv(HEADERS, f"X-Token=Bearer%20{SECRET}, x-tenant=a b")
        assert by_name()["telemetry"].told == ALL_WELL
    assert [path for path, _ in receiver.requests] == ["/v1/traces", "/v1/metrics"]
    for _, headers in receiver.requests:
        assert (headers["x-token"], headers["x-tenant"]) == (f"Bearer {SECRET}", "a b")
        assert headers["content-type"] == "application/x-protobuf"
    # An empty request holds no span and no number.
    assert not receiver.spans()
    assert not receiver.points()


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (HTTPStatus.UNAUTHORIZED, "answers 401: look at the path, and at the token in"),
        (HTTPStatus.NOT_FOUND, "answers 404: look at the path"),
        (HTTPStatus.TEMPORARY_REDIRECT, "answers 307: name the address that it redirects to"),
        (HTTPStatus.SERVICE_UNAVAILABLE, "answers 503: look at the collector's own log"),
    ],
)
def test_a_collector_that_does_not_take_it_is_red(
    monkeypatch: pytest.MonkeyPatch, status: HTTPStatus, told: str
) -> None:
    with answering(status, SECRET.encode()) as url:
        monkeypatch.setenv(URL, url)
        red = only_red()
    assert red.name == "telemetry"
    assert f"the collector that {URL} names {told}" in red.told
    assert red.told.count("answers") == 1
    assert SECRET not in red.told


def test_a_collector_that_is_not_there_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    with nobody() as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{url}/v1/traces")
        red = only_red()
    assert red.name == "telemetry"
    assert "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT names gives no answer (ConnectionError)" in red.told


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        (URL, f"grpc://user:{SECRET}@127.0.0.1:4317", f"{URL} is no address"),
        (HEADERS, f"Bearer {SECRET}", f"{HEADERS} has no name=value at place 1"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "only otlp over http/protobuf is spoken here"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "only otlp over http/protobuf is spoken here"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10000", "OTEL_EXPORTER_OTLP_TIMEOUT is not a number of"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file", ALL_WELL),
    ],
)
def test_what_is_asked_wrongly_is_red_and_no_value_is_shown(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
    told: str,
) -> None:
    with collector() as receiver:
        monkeypatch.setenv(URL, receiver.url)
        monkeypatch.setenv(name, value)
        assert main(["doctor", "--json"]) == (told != ALL_WELL)
    said = capsys.readouterr()
    (check,) = [check for check in json.loads(said.out) if check["name"] == "telemetry"]
    assert told in check["told"]
    assert SECRET not in said.out + said.err
