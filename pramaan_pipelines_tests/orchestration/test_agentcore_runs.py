"""What the agent runtime's answers make of a framer run: the real resource, the real invoker."""

import json
from collections.abc import Iterator
from uuid import UUID

import pytest
from dagster import DagsterInstance

from pramaan_pipelines.orchestration import names
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.orchestration.bench import Agent, Rail
from pramaan_pipelines_tests.support.agentcore import (
    ARN,
    ENDPOINT,
    Refused,
    Runtime,
    agent_runtime,
    says,
)
from pramaan_pipelines_tests.support.world import TRACEPARENT, World, body

pytestmark = pytest.mark.usefixtures("no_pause")


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    with agent_runtime() as running:
        monkeypatch.setenv(ENDPOINT, running.endpoint_url)
        monkeypatch.setenv("PRAMAAN_AGENT", "agentcore")
        monkeypatch.setenv("AGENT_RUNTIME_ARN", ARN)
        yield running


@pytest.fixture
def framer(configured: Settings, world: World, instance: DagsterInstance, runtime: Runtime) -> Rail:
    """The rail, with nothing in the place of the agent's resource."""
    del runtime
    return Rail(configured, world, instance, Agent())


def mine(framer: Rail) -> tuple[UUID, str]:
    matter = framer.world.matter(framer.world.firm_a)
    return matter, body(framer.world.firm_a, matter)


def test_an_agent_that_is_done_ends_the_run_and_its_trace_goes_on_there(
    framer: Rail, runtime: Runtime
) -> None:
    matter, text = mine(framer)
    run = framer.deliver(text)
    assert run.outcome == ("started", "release")
    (row,) = framer.world.runs(matter)
    assert row["status"] == "succeeded"
    (members,) = runtime.requests
    payload = json.loads(members["payload"])
    assert payload["agent_run_id"] == row["id"]
    assert members["traceParent"] == payload["traceparent"]
    assert members["traceParent"].split("-")[1] == TRACEPARENT.split("-")[1]


def test_an_agent_that_accepts_keeps_the_job_until_it_reports(
    framer: Rail, runtime: Runtime
) -> None:
    """H10."""
    runtime.agent = lambda _: says(status="accepted")
    matter, text = mine(framer)
    run = framer.deliver(text)
    assert run.outcome == ("started", "invoke")
    job = framer.world.job(matter)
    assert job is not None
    assert job["run_status"] == "running"
    assert framer.depth().total == 0  # acknowledged: what it caused is committed


def test_a_throttled_agent_is_asked_again_with_one_session_and_one_agent_run(
    framer: Rail, runtime: Runtime
) -> None:
    runtime.agent = lambda _: (
        Refused("ThrottlingException") if len(runtime.requests) < 3 else says(status="done")
    )
    matter, text = mine(framer)
    assert framer.deliver(text).outcome == ("started", "release")
    assert len(framer.world.runs(matter)) == 1
    assert len(runtime.requests) == 3
    assert len({members["runtimeSessionId"] for members in runtime.requests}) == 1
    assert len({members["payload"] for members in runtime.requests}) == 1


def test_a_refused_call_is_red_at_once_and_says_what_to_do(framer: Rail, runtime: Runtime) -> None:
    runtime.agent = lambda _: Refused("AccessDeniedException", "privileged words")
    matter, text = mine(framer)
    run = framer.deliver(text)
    assert run.failed == ["invoke"]
    assert len(runtime.requests) == 1  # four tries would bring the same answer four times
    line, _ = run.failure("invoke")
    assert "AccessDeniedException" in line
    assert "allow this service's role bedrock-agentcore:InvokeAgentRuntime" in line
    assert "privileged" not in line
    assert "It is tried again" not in line
    assert run.tags[names.TAG_REASON] == "AgentRefusedError"
    job = framer.world.job(matter)
    assert job is not None
    assert job["run_status"] == "running"  # until its lease is over; then healing takes it up


def test_an_agent_that_stays_out_is_asked_four_times(framer: Rail, runtime: Runtime) -> None:
    runtime.agent = lambda _: Refused("InternalServerException")
    _, text = mine(framer)
    run = framer.deliver(text)
    assert run.failed == ["invoke"]
    assert len(runtime.requests) == 4
    assert run.tags[names.TAG_REASON] == "AgentUnavailableError"


def test_a_runtime_without_an_arn_fails_the_run_by_the_variable_s_name(
    framer: Rail, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENT_RUNTIME_ARN")
    matter, text = mine(framer)
    run = framer.deliver(text)
    assert not run.result.success
    assert "AGENT_RUNTIME_ARN is not set" in run.everything_stored()
    assert framer.world.job(matter) is None  # before the claim: nothing is held by it
