"""Dead letters to look at, jobs to press, and commands to run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dagster import DagsterEventType, DagsterInstance, ExecuteInProcessResult

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.framer.dead_letters import DeadLetters
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer, QueueDepth
from pramaan_pipelines.messaging.queues import (
    FRAMER_EVENTS,
    INGESTION,
    REGISTRATION,
    DeadLetterQueue,
    consumer_of,
    undeliverable_events,
)
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.support.first_line import first_line
from pramaan_pipelines_tests.support.world import body

HOSTILE = '{"event_id": "privileged and confidential", "note": "hunter2"}'


@dataclass
class Letters:
    """The framer's dead-letter queue on the rail."""

    rail: Rail

    @property
    def view(self) -> DeadLetters:
        return DeadLetters.of(self.rail.settings, self.rail.queue, self.rail.world.database)

    @property
    def queue(self) -> QueueConsumer:
        return self.rail.queue.dead_letters()

    @property
    def depth(self) -> QueueDepth:
        return self.queue.depth()

    def put(self, *bodies: str) -> None:
        """Let `bodies` stand on the dead-letter queue."""
        queue = self.queue
        for text in bodies:
            client("sqs", self.rail.settings).send_message(
                QueueUrl=queue._queue_url, MessageBody=text
            )

    def good(self, **changes: object) -> str:
        """Return the envelope of a new matter, which passes every gate."""
        firm = self.rail.world.firm_a
        return body(firm, self.rail.world.matter(firm), **changes)

    def bodies(self) -> list[str]:
        """Return what stands there now, in no order."""
        found = []
        while batch := self.queue.receive(10, 0):
            found += [message.body for message in batch]
        return sorted(found)


BOXES = {
    DeadLetterQueue.INGESTION: INGESTION,
    DeadLetterQueue.REGISTRATION: REGISTRATION,
}


def source_of(rail: Rail, name: DeadLetterQueue) -> QueueConsumer:
    """The queue that the letters of `name` go back to."""
    return consumer_of(rail.settings, BOXES.get(name, FRAMER_EVENTS))


def dead_of(rail: Rail, name: DeadLetterQueue) -> QueueConsumer:
    """The dead-letter queue itself."""
    if name is DeadLetterQueue.UNDELIVERABLE:
        return undeliverable_events(rail.settings)
    return source_of(rail, name).dead_letters()


def stand_on(rail: Rail, name: DeadLetterQueue, *bodies: str) -> None:
    """Let `bodies` stand on the dead-letter queue."""
    for text in bodies:
        client("sqs", rail.settings).send_message(
            QueueUrl=dead_of(rail, name)._queue_url,
            MessageBody=text,
            MessageAttributes={"event_type": {"DataType": "String", "StringValue": "x.y"}},
        )


@dataclass(frozen=True)
class Pressed:
    """A finished run of one of the operator's jobs."""

    result: ExecuteInProcessResult
    instance: DagsterInstance

    @property
    def green(self) -> bool:
        return self.result.success

    @property
    def told(self) -> dict[str, Any]:
        """The op's output metadata."""
        found: dict[str, Any] = {}
        for event in self.result.all_events:
            if event.event_type is DagsterEventType.STEP_OUTPUT:
                found |= event.step_output_data.metadata
        return {key: value.value for key, value in found.items()}

    @property
    def failure(self) -> str:
        """The first line of what a red run says."""
        return first_line(self.instance, self.result)

    @property
    def logs(self) -> str:
        return "\n".join(entry.user_message for entry in self.instance.all_logs(self.result.run_id))


def press(instance: DagsterInstance, job: str, op: str, config: Mapping[str, Any]) -> Pressed:
    """Run one of the operator's jobs."""
    result = defs.resolve_job_def(job).execute_in_process(
        run_config={"ops": {op: {"config": dict(config)}}}, instance=instance, raise_on_error=False
    )
    return Pressed(result, instance)
