"""The framer rail on a bench: real queue, real database, real resources, an agent that is told.

Only the agent's runtime is a stand-in. What happens between two gates is arranged by `before`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from dagster import (
    DagsterEventType,
    DagsterInstance,
    DagsterRun,
    ExecuteInProcessResult,
    RunRequest,
    RunsFilter,
)
from dagster._serdes import serialize_value

from pramaan_pipelines.contracts.invoke import InvokeAnswer, InvokePayload
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.definitions import defs
from pramaan_pipelines.framer import gates
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer, QueueDepth, ReceivedMessage
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.framer import run_request
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.support.world import World

GATES = (
    "parse",
    "environment",
    "dedupe",
    "coherence",
    "consent",
    "claim",
    "invoke",
    "release",
    "acknowledge",
)
"""The contract's order, and the acknowledgement behind it."""

CALLS: Mapping[str, tuple[Any, str]] = {
    "environment": (gates, "check_environment"),
    "dedupe": (gates, "is_handled"),
    "coherence": (gates, "check_subject"),
    "consent": (gates, "load_egress_consent"),
    "claim": (FrameJobClaims, "claim"),
    "invoke": (FrameJobClaims, "fence"),
    "release": (FrameJobClaims, "release"),
    "acknowledge": (QueueConsumer, "delete"),
}
"""What each op calls first of the core. The claim reads the gates by names of its own."""

LEASE = 900


def before(monkeypatch: pytest.MonkeyPatch, gate: str, act: Callable[[], object]) -> None:
    """Let `act` happen right before the op `gate` does its work, the first time only."""
    where, name = CALLS[gate]
    real, left = getattr(where, name), [act]

    def interposed(*args: Any, **named: Any) -> Any:
        while left:
            left.pop()()
        return real(*args, **named)

    monkeypatch.setattr(where, name, interposed)


@dataclass
class Agent:
    """A runtime that answers as it is told, and remembers what it was given.

    Attributes:
        answer: what a call that succeeds returns.
        failures: how many calls fail before one succeeds.
        look: called at each invoke; what it returns is kept in `seen`.
    """

    answer: InvokeAnswer = InvokeAnswer.DONE
    failures: int = 0
    look: Callable[[], object] = lambda: None
    payloads: list[InvokePayload] = field(default_factory=list)
    seen: list[object] = field(default_factory=list)

    def invoke(self, payload: InvokePayload) -> InvokeAnswer:
        self.payloads.append(payload)
        self.seen.append(self.look())
        if self.failures >= len(self.payloads):
            raise ConnectionError("the runtime is out")
        return self.answer


@dataclass(frozen=True)
class FramerRun:
    """One finished run of the framer job, and what an operator sees of it."""

    result: ExecuteInProcessResult
    instance: DagsterInstance

    @property
    def record(self) -> DagsterRun:
        found = self.instance.get_run_by_id(self.result.run_id)
        assert found is not None
        return found

    @property
    def tags(self) -> Mapping[str, str]:
        return self.record.tags

    @property
    def outcome(self) -> tuple[str | None, str | None]:
        """Outcome and gate, as the tags tell them."""
        return self.tags.get(names.TAG_OUTCOME), self.tags.get(names.TAG_GATE)

    def _steps(self, kind: DagsterEventType) -> list[str]:
        return [str(event.step_key) for event in self.result.all_events if event.event_type is kind]

    @property
    def ran(self) -> list[str]:
        """The ops that succeeded, in order."""
        return self._steps(DagsterEventType.STEP_SUCCESS)

    @property
    def skipped(self) -> set[str]:
        return set(self._steps(DagsterEventType.STEP_SKIPPED))

    @property
    def failed(self) -> list[str]:
        return self._steps(DagsterEventType.STEP_FAILURE)

    @property
    def started(self) -> list[str]:
        return self._steps(DagsterEventType.STEP_START)

    def outputs(self, op: str) -> dict[str, dict[str, Any]]:
        """The outputs by which `op` was left, each with its metadata."""
        return {
            data.step_output_handle.output_name: {
                key: value.value for key, value in data.metadata.items()
            }
            for event in self.result.all_events
            if event.event_type is DagsterEventType.STEP_OUTPUT and event.step_key == op
            for data in [event.step_output_data]
        }

    def failure(self, op: str) -> tuple[str, dict[str, Any]]:
        """The first line of a failed op, and the metadata beside it."""
        (data,) = [
            event.step_failure_data
            for event in self.result.all_events
            if event.event_type is DagsterEventType.STEP_FAILURE and event.step_key == op
        ]
        assert data.user_failure_data is not None
        told = data.user_failure_data
        return (
            str(told.description).splitlines()[0],
            {key: value.value for key, value in told.metadata.items()},
        )

    def materialized(self) -> list[str]:
        return [
            event.asset_key.to_user_string()
            for event in self.result.all_events
            if event.event_type is DagsterEventType.ASSET_MATERIALIZATION and event.asset_key
        ]

    def hook_errors(self) -> list[str]:
        return self._steps(DagsterEventType.HOOK_ERRORED)

    def everything_stored(self) -> str:
        """All that the instance keeps of the run: config, tags, and each event."""
        events = [serialize_value(entry) for entry in self.instance.all_logs(self.result.run_id)]
        return "\n".join([serialize_value(self.record), *events])


@dataclass
class Rail:
    """The framer rail: send bodies, receive messages, run them."""

    settings: Settings
    world: World
    instance: DagsterInstance
    agent: Agent

    @property
    def queue(self) -> QueueConsumer:
        return QueueConsumer.from_settings(self.settings)

    def send(self, *bodies: str) -> None:
        queue = client("sqs", self.settings)
        for body in bodies:
            queue.send_message(
                QueueUrl=self.settings.require("framer_events_queue_url"), MessageBody=body
            )

    def receive(self) -> ReceivedMessage:
        """Take the one message that is visible, waiting for it a little."""
        (message,) = self.queue.receive(1, 2)
        return message

    def run(self, message: ReceivedMessage) -> FramerRun:
        return self.launch(run_request(message))

    def launch(self, request: RunRequest) -> FramerRun:
        """Run what the sensor asks for, as the daemon would."""
        result = defs.resolve_job_def("framer_trigger_job").execute_in_process(
            run_config=request.run_config,
            tags=request.tags,
            instance=self.instance,
            raise_on_error=False,
        )
        return FramerRun(result, self.instance)

    def deliver(self, body: str) -> FramerRun:
        self.send(body)
        return self.run(self.receive())

    def depth(self) -> QueueDepth:
        return self.queue.depth()

    def claims(self) -> FrameJobClaims:
        """Claims of another worker."""
        return FrameJobClaims(self.world.database, lease_seconds=LEASE)

    def claimed_elsewhere(self, firm: UUID, matter: UUID, event: UUID) -> Claim:
        """Let another worker win the matter's claim."""
        won = self.claims().claim(FrameRequest(firm, matter, event), TraceContext())
        assert isinstance(won, Claim)
        return won

    def lease_over(self, matter: UUID) -> None:
        """Let the time pass."""
        self.world.god.execute(
            "UPDATE ops.matter_frame_jobs SET claimed_at = now() - make_interval(secs => %s) "
            "WHERE matter_id = %s",
            [LEASE + 1, matter],
        )

    def run_count(self) -> int:
        return self.instance.get_runs_count(RunsFilter(job_name="framer_trigger_job"))
