"""`pramaan doctor` on the agent runtime, at the HTTP protocol, by botocore's own model of it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel

from pramaan_pipelines.doctor import examine
from pramaan_pipelines.doctor.agent import SERVING, agent_check
from pramaan_pipelines.doctor.check import Check
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.support.agentcore import ARN
from pramaan_pipelines_tests.support.aws import free_port
from pramaan_pipelines_tests.support.world import World

CONTROL = "AWS_ENDPOINT_URL_BEDROCK_AGENTCORE_CONTROL"
RUNTIME = ARN.rsplit("/", maxsplit=1)[-1]
CONTENT = "PRIVILEGED words of the service"
NOT_SERVING = {"CREATING", "CREATE_FAILED", "UPDATE_FAILED", "DELETING", "DELETE_FAILED"}
MODEL = ServiceModel(
    Loader().load_service_model("bedrock-agentcore-control", "service-2")
).operation_model("GetAgentRuntimeEndpoint")


@dataclass
class Described:
    """What the stand-in says of the endpoint, or the error of the model that it answers with."""

    status: str = "READY"
    arn: str = ARN
    error: str | None = None
    asked: list[str] = field(default_factory=list)

    def answer(self) -> tuple[int, dict[str, str]]:
        if self.error is not None:
            (shape,) = [shape for shape in MODEL.error_shapes if shape.name == self.error]
            return int(shape.metadata["error"]["httpStatusCode"]), {"message": CONTENT}
        now = "2026-01-01T00:00:00Z"
        of = {"agentRuntimeArn": self.arn, "agentRuntimeEndpointArn": f"{self.arn}/x"}
        named = {"name": "DEFAULT", "id": "DEFAULT", "createdAt": now, "lastUpdatedAt": now}
        return 200, {**of, **named, "status": self.status}


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> Iterator[Described]:
    """The stand-in of what describes the runtimes."""
    said = Described()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            said.asked.append(self.path)
            status, members = said.answer()
            out = json.dumps(members).encode()
            self.send_response(status)
            if said.error is not None:
                self.send_header("x-amzn-ErrorType", said.error)
            self.send_header("Content-Length", str(len(out)))
            self.end_headers()
            self.wfile.write(out)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv(CONTROL, f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "123456789012")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "unused")
    yield said
    server.shutdown()
    thread.join()
    server.server_close()


def look(**more: str | None) -> Check:
    values = {"pramaan_environment": "test", "database_url": "postgresql://unused"}
    on_agentcore = {"pramaan_agent": "agentcore", "agent_runtime_arn": ARN}
    return agent_check(
        Settings.model_validate({**values, **on_agentcore, "aws_region": "eu-west-1", **more})
    )


@pytest.mark.parametrize("status", ["READY", "UPDATING"])
def test_a_runtime_that_serves_is_green_and_asked_by_its_id_and_qualifier(
    described: Described, status: str
) -> None:
    described.status = status
    check = look(agent_runtime_qualifier="canary")
    assert (check.passed, check.told) == (True, "as it should be")
    wanted = str(MODEL.http["requestUri"]).format(agentRuntimeId=RUNTIME, endpointName="canary")
    assert described.asked == [wanted]


@pytest.mark.parametrize("status", sorted(NOT_SERVING))
def test_an_endpoint_that_does_not_serve_is_red(described: Described, status: str) -> None:
    described.status = status
    check = look()
    assert not check.passed
    assert f"endpoint is {status}" in check.told


def test_the_statuses_are_all_that_the_model_knows() -> None:
    shape = MODEL.output_shape
    assert shape is not None
    status: Any = shape.members["status"]
    assert set(status.enum) == NOT_SERVING | SERVING


def test_a_runtime_in_another_region_is_red_and_not_asked(described: Described) -> None:
    check = look(aws_region="us-east-1")
    assert not check.passed
    assert "in eu-west-1 and AWS_REGION is us-east-1" in check.told
    assert described.asked == []


def test_another_account_of_the_same_id_is_red(described: Described) -> None:
    described.arn = ARN.replace("123456789012", "999999999999")
    check = look()
    assert not check.passed
    assert "see account 999999999999, AGENT_RUNTIME_ARN is of 123456789012" in check.told


def test_what_may_not_be_read_is_said_and_is_no_fault(described: Described) -> None:
    described.error = "AccessDeniedException"
    check = look()
    assert check.passed
    assert "was not read: this role may not bedrock-agentcore:GetAgentRuntimeEndpoint" in check.told


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("ResourceNotFoundException", "no such endpoint of such a runtime"),
        ("ValidationException", "no such endpoint of such a runtime"),
        ("ThrottlingException", "could not be read (ThrottlingException)"),
        ("InternalServerException", "could not be read (InternalServerException)"),
    ],
)
def test_what_the_service_refuses_is_red_without_its_words(
    described: Described, error: str, told: str
) -> None:
    described.error = error
    check = look()
    assert not check.passed
    assert told in check.told
    assert CONTENT not in check.told


@pytest.mark.usefixtures("described")
def test_a_service_that_is_not_there_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONTROL, f"http://127.0.0.1:{free_port()}")
    check = look()
    assert not check.passed
    assert "could not be read (EndpointConnectionError)" in check.told


def test_an_arn_that_is_not_set_is_red() -> None:
    check = look(agent_runtime_arn=None)
    assert not check.passed
    assert "AGENT_RUNTIME_ARN" in check.told


@pytest.mark.usefixtures("configured", "world")
def test_doctor_looks_at_the_runtime_only_where_one_is_chosen(
    described: Described, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    assert world
    assert "agent runtime" not in [check.name for check in examine()]
    assert described.asked == []
    monkeypatch.setenv("PRAMAAN_AGENT", "agentcore")
    monkeypatch.setenv("AGENT_RUNTIME_ARN", ARN.replace("eu-west-1", "us-east-1"))
    (check,) = [check for check in examine() if check.name == "agent runtime"]
    assert check.passed, check.told
    assert len(described.asked) == 1
