"""The agent on Bedrock AgentCore, at the HTTP protocol, against botocore's own model of it."""

import json
import logging
import re
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from pramaan_pipelines.contracts.invoke import InvokeAnswer, InvokePayload
from pramaan_pipelines.errors import PramaanError, SettingsError
from pramaan_pipelines.framer.agent import AgentRefusedError, AgentUnavailableError
from pramaan_pipelines.framer.agentcore import AgentCoreAgent, session_id
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.support.agentcore import (
    ARN,
    ENDPOINT,
    EVENTS,
    Refused,
    Reply,
    Runtime,
    Said,
    agent_runtime,
    events,
    operation,
    says,
)
from pramaan_pipelines_tests.support.aws import free_port, settings_for
from pramaan_pipelines_tests.support.world import TRACEPARENT, TRACESTATE

CONTENT = "privileged-words-of-a-matter"
SECONDS = 2


@pytest.fixture(autouse=True)
def nothing_of_the_machine(aws_environment: str) -> None:
    """Keep the machine's own settings out."""
    del aws_environment


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    with agent_runtime() as running:
        monkeypatch.setenv(ENDPOINT, running.endpoint_url)
        yield running


def settings_of(**more: Any) -> Settings:
    given: dict[str, Any] = {"agent_runtime_arn": ARN, "agent_timeout_seconds": SECONDS, **more}
    return settings_for("http://the-queues-are-elsewhere", pramaan_agent="agentcore", **given)


def a_payload(traceparent: str | None = TRACEPARENT) -> InvokePayload:
    return InvokePayload(
        firm_id=uuid4(),
        matter_id=uuid4(),
        agent_run_id=uuid4(),
        traceparent=traceparent,
        tracestate=TRACESTATE if traceparent else None,
    )


def invoke(payload: InvokePayload | None = None) -> InvokeAnswer:
    return AgentCoreAgent.from_settings(settings_of()).invoke(payload or a_payload())


def test_the_request_is_what_the_model_says_and_holds_five_keys_and_nothing_else(
    runtime: Runtime,
) -> None:
    payload = a_payload()
    assert invoke(payload) is InvokeAnswer.DONE
    (members,) = runtime.requests
    assert json.loads(members.pop("payload")) == payload.model_dump(mode="json")
    session = members.pop("runtimeSessionId")
    assert str(payload.agent_run_id) in session
    _, trace_id, span_id, flags = TRACEPARENT.split("-")
    sampled = int(flags, 16) & 1
    assert members == {
        "agentRuntimeArn": ARN,
        "qualifier": "DEFAULT",
        "contentType": "application/json",
        "accept": "application/json, text/event-stream",
        "traceParent": TRACEPARENT,
        "traceState": TRACESTATE,
        "traceId": f"Root=1-{trace_id[:8]}-{trace_id[8:]};Parent={span_id};Sampled={sampled}",
    }


def test_a_run_without_a_trace_is_invoked_without_one(runtime: Runtime) -> None:
    invoke(a_payload(traceparent=None))
    (members,) = runtime.requests
    assert not members.keys() & {"traceParent", "traceState", "traceId"}


def test_a_session_is_one_run_s_own_and_fits_both_of_the_model_s_rules() -> None:
    """Two firms in one session would share its memory and its files."""
    run = uuid4()
    output = operation().output_shape
    assert output is not None
    answered = output.members["runtimeSessionId"].metadata["max"]
    assert 33 <= len(session_id(run)) <= answered
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9-_]*", session_id(run))
    assert session_id(run) == session_id(UUID(str(run)))
    assert session_id(run) != session_id(uuid4())


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (says(status="done"), InvokeAnswer.DONE),
        (says(status="accepted", frame={"words": CONTENT}), InvokeAnswer.ACCEPTED),
        (Said([b'{"status":', b' "done"', b"}"], pause=0.05), InvokeAnswer.DONE),
        (Said([b'{"status":"done"}'], length=17), InvokeAnswer.DONE),
        (events({"token": CONTENT}, {"status": "done"}), InvokeAnswer.DONE),
        (events({"error": None, "status": None}, {"status": "done"}), InvokeAnswer.DONE),
        (events({"status": "accepted"}, {"status": "done"}), InvokeAnswer.DONE),
        (events({"status": "accepted"}, {"token": CONTENT}), InvokeAnswer.ACCEPTED),
        (Said([b'data: {"status": "done"}'], EVENTS), InvokeAnswer.DONE),
        (Said([b"da", b'ta: {"stat', b'us":\r\ndata: "done"}\r', b"\n\r\n"], EVENTS),
         InvokeAnswer.DONE),
        (Said([b": a comment\nid: 7\ndata: [1]\n\n", b'data:{"status":"done"}\n\n'],
              "Text/Event-Stream; charset=utf-8"), InvokeAnswer.DONE),
        (Said([b"data: " + b"x" * 300_000 + b"\n\n", b'data: {"status": "done"}\n\n'], EVENTS),
         InvokeAnswer.DONE),
        # It took the run on; what became of the rest of its stream is no news.
        (events({"status": "accepted"}, cut=True), InvokeAnswer.ACCEPTED),
    ],
)  # fmt: skip
def test_an_answer_is_read_whole_or_as_it_comes(
    runtime: Runtime, reply: Reply, answer: InvokeAnswer
) -> None:
    runtime.agent = lambda _: reply
    assert invoke() is answer


def test_a_last_word_is_not_waited_past(runtime: Runtime) -> None:
    more = [{"token": n} for n in range(50)]
    runtime.agent = lambda _: events({"status": "done"}, *more, pause=0.2)
    began = time.monotonic()
    assert invoke() is InvokeAnswer.DONE
    assert time.monotonic() - began < SECONDS  # the whole stream would take five times that


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (says(status="failed", why=CONTENT), "says that it failed"),
        (says(error=CONTENT), "says that it failed"),
        (events({"token": CONTENT}, {"error": CONTENT}), "says that it failed"),
        (says(status=CONTENT), "without a status that is known"),
        (says(status=["done"]), "without a status that is known"),
        (says(), "without a status that is known"),
        (says(error=None), "without a status that is known"),
        (says(status="done", agent_run_id=CONTENT), "another agent_run_id"),
        (Said([CONTENT.encode()]), "no JSON object"),
        (Said([b'"done"']), "no JSON object"),
        (Said([]), "no JSON object"),
        (Said([b"[" * 60_000]), "no JSON object"),
        (Said([b"\xff\xfe\x00"]), "no JSON object"),
        (Said([b'{"status": "done", "frame": "', *[b"x" * 30_000] * 3, b'"}']), "is over 65536"),
        (events({"token": CONTENT}), "ended without a status"),
        (Said([], EVENTS), "ended without a status"),
        (Said([b"x" * 1_000_000] * 5, EVENTS), "is over 4194304"),
        (Said([b"\n" * 1_000_000] * 5, EVENTS), "is over 4194304"),
        (Refused("AccessDeniedException", CONTENT), "bedrock-agentcore:InvokeAgentRuntime"),
        (Refused("ResourceNotFoundException", CONTENT), "AGENT_RUNTIME_ARN"),
        (Refused("ValidationException", CONTENT), "AGENT_RUNTIME_ARN"),
    ],
)
def test_what_no_second_try_mends_is_refused_without_a_word_of_the_agent_s(
    runtime: Runtime, reply: Reply, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    runtime.agent = lambda _: reply
    with pytest.raises(AgentRefusedError, match=re.escape(told)) as caught:
        invoke()
    assert_says_nothing(caught.value, caplog)
    assert len(runtime.requests) == 1


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Refused("ThrottlingException", CONTENT), "ThrottlingException"),
        (Refused("ServiceQuotaExceededException", CONTENT), "ServiceQuotaExceededException"),
        (Refused("RetryableConflictException", CONTENT), "RetryableConflictException"),
        (Refused("InternalServerException", CONTENT), "InternalServerException"),
        (Refused("RuntimeClientError", CONTENT), "RuntimeClientError"),
        (Said([b'{"status": "do'], cut=True), "was cut"),
        (Said([b'{"status": "do'], length=17), "was cut"),
        (events({"token": CONTENT}, cut=True), "was cut"),
        (Said([b'{"sta', *[b" "] * 40], pause=0.2), "no whole answer within 2 s"),
        (Said([b"data: x\n\n"] * 40, EVENTS, pause=0.2), "no whole answer within 2 s"),
        (Said([b"{}"], pause=10), "no whole answer within 2 s"),
    ],
)
def test_what_a_second_try_may_mend_is_unavailable_and_tried_by_the_run_alone(
    runtime: Runtime, reply: Reply, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    runtime.agent = lambda _: reply
    began = time.monotonic()
    with pytest.raises(AgentUnavailableError, match=told) as caught:
        invoke()
    assert time.monotonic() - began < 2 * SECONDS
    assert_says_nothing(caught.value, caplog)
    assert len(runtime.requests) == 1  # botocore repeats nothing behind the run's back


def test_a_runtime_that_nobody_serves_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{free_port()}")
    with pytest.raises(AgentUnavailableError, match="EndpointConnectionError"):
        invoke()


@pytest.mark.usefixtures("runtime")
def test_a_service_without_credentials_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(AgentRefusedError, match="credentials"):
        invoke()


def test_an_agent_that_answers_for_another_run_of_ours_is_not_believed(runtime: Runtime) -> None:
    mine, other = a_payload(), a_payload()
    runtime.agent = lambda _: says(status="done", agent_run_id=str(mine.agent_run_id))
    assert invoke(mine) is InvokeAnswer.DONE
    with pytest.raises(AgentRefusedError, match="another agent_run_id"):
        invoke(other)


def test_the_runtime_s_region_is_the_arn_s() -> None:
    agent = AgentCoreAgent.from_settings(settings_of(aws_region="us-east-1"))
    assert agent._client.meta.region_name == "eu-west-1"


def test_the_agent_on_agentcore_needs_its_arn() -> None:
    with pytest.raises(SettingsError, match="AGENT_RUNTIME_ARN is not set"):
        AgentCoreAgent.from_settings(settings_of(agent_runtime_arn=None))


@pytest.mark.parametrize(
    "arn",
    [
        "vega_matter_frame-0123456789",
        "arn:aws:bedrock-agentcore:eu-west-1:123456789012:memory/vega",
        "arn:aws:lambda:eu-west-1:123456789012:function:vega",
        f"{ARN}/../other",
        f"{ARN}\n",
    ],
)
def test_an_arn_of_anything_else_is_no_setting(arn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRAMAAN_ENVIRONMENT", "test")
    monkeypatch.setenv("DATABASE_URL", "postgresql://unused")
    monkeypatch.setenv("AGENT_RUNTIME_ARN", arn)
    with pytest.raises(SettingsError, match="AGENT_RUNTIME_ARN is unusable"):
        Settings.load()


def assert_says_nothing(error: PramaanError, caplog: pytest.LogCaptureFixture) -> None:
    assert CONTENT not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    assert CONTENT not in caplog.text
