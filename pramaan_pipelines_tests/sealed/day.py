"""A day of the pipeline: everything that can tick, run or be typed, in fair weather and in foul.

What a later job, schedule, sensor or command says is searched too: all are taken from the code
location and from the parser. One that needs a config or an argument gets it in CONFIGS or COMMANDS.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

import pytest
from dagster import (
    JobDefinition,
    ScheduleDefinition,
    SensorDefinition,
    build_schedule_context,
    build_sensor_context,
)
from dagster._serdes import serialize_value
from dagster._utils.error import serializable_error_info_from_exc_info
from sqlalchemy import text

from pramaan_pipelines import cli
from pramaan_pipelines.definitions import defs
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import ReceivedMessage
from pramaan_pipelines.orchestration.framer import run_request
from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.sealed.planting import Haul, Plant
from pramaan_pipelines_tests.support.records import TelemetryRecord

Config = Mapping[str, Any]

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "status": (),
    "migrate": (),
    "provision": (),
    "policies": ("code-location",),
    "doctor": ("--json",),
    "redrive": ("domain_event_relay",),
    "replay": ("domain_event_relay", "--from", "2026-01-01"),
    "dead-letters": (),
    "prune": (),
    "rebuild": ("--firm", "{firm}", "--matter", "{matter}"),
    "complete": ("--firm", "{firm}", "--agent-run", "{matter}"),
    "heartbeat": ("--firm", "{firm}", "--agent-run", "{matter}"),
}
ELSEWHERE: Final = {
    "up": "starts the embedded stack",
    "down": "stops it",
    "seed": "writes sample data",
    "dev": "the daemon's own test searches what it stores",
    "demo": "as dev",
    "metrics": "runs until it is told to end; what it exports are numbers of a closed registry",
}


def commands() -> set[str]:
    """Return the subcommands that there are."""
    (found,) = [
        action
        for action in cli._parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    return set(found.choices)


@dataclass
class Day:
    """The rail with everything around it."""

    rail: Rail
    plant: Plant
    haul: Haul
    record: TelemetryRecord
    capture: pytest.CaptureFixture[str]
    delivery: ReceivedMessage

    def work_off(self) -> None:
        """Let the framer's sensor tick until its queue is empty."""
        while self.rail.depth().total:
            self._tick(self._framer_sensor, build_sensor_context)

    @property
    def _framer_sensor(self) -> SensorDefinition:
        return defs.get_repository_def().get_sensor_def("framer_events_sensor")

    def deliver(self, body: str) -> None:
        """Let the sensor's next ticks take one message."""
        self.rail.send(body)
        while self.rail.depth().visible:
            self._tick(self._framer_sensor, build_sensor_context)

    def everything(self) -> None:
        """Let everything tick, run and be typed once."""
        repository = defs.get_repository_def()
        for sensor in repository.sensor_defs:
            self._tick(sensor, build_sensor_context)
        for schedule in repository.schedule_defs:
            self._tick(schedule, build_schedule_context)
        for job in repository.get_all_jobs():
            if not job.name.startswith("__"):
                self._run(job)
        for command, arguments in COMMANDS.items():
            self._type(command, *arguments)
            self._type("--debug", command, *arguments)
        self._type("doctor")
        self._type("dead-letters", "--redrive", "passing")

    def _tick(
        self, tick: SensorDefinition | ScheduleDefinition, context: Callable[..., Any]
    ) -> None:
        try:
            with context(instance=self.rail.instance, resources=make_resources()) as opened:
                data = tick.evaluate_tick(opened)
        except Exception:  # noqa: BLE001 - what the daemon stores of it is what is looked at
            stored = serializable_error_info_from_exc_info(sys.exc_info())
            self.haul.add("Dagster's ticks", stored.to_string())
        else:
            requests = [serialize_value(request) for request in data.run_requests or []]
            events = [str(event) for event in getattr(data, "asset_events", None) or []]
            self.haul.add("Dagster's ticks", tick.name, data.skip_message or "", *requests, *events)
            for request in data.run_requests or []:
                job = defs.resolve_job_def(str(request.job_name or tick.job_name))
                self._run(job, run_config=request.run_config, tags=dict(request.tags))

    def _run(self, job: JobDefinition, **asked: Any) -> None:
        asked = asked or self._config(job)
        result = job.execute_in_process(instance=self.rail.instance, raise_on_error=False, **asked)
        record = self.rail.instance.get_run_by_id(result.run_id)
        assert record is not None
        events = [serialize_value(entry) for entry in self.rail.instance.all_logs(result.run_id)]
        self.haul.add("Dagster's runs", serialize_value(record), *events)

    def _config(self, job: JobDefinition) -> dict[str, Any]:
        visit = {"firm_id": str(self.rail.world.firm_a), "matter_id": str(uuid4())}
        config: dict[str, Any] = {
            "redrive_parked_rows_job": {"redrive_parked_rows": {"lane": "domain_event_relay"}},
            "rebuild_frame_job": {"request_rebuild": visit},
            "frame_healing_job": {"owed": visit},
        }
        if job.name == "framer_trigger_job":
            request = run_request(self.delivery)
            return {"run_config": request.run_config, "tags": request.tags}
        ops = {name: {"config": given} for name, given in config.get(job.name, {}).items()}
        if job.partitions_def is not None:
            return {"partition_key": str(datetime.now(UTC).date())}
        return {"run_config": {"ops": ops}} if ops else {"run_config": {}}

    def _type(self, *arguments: str) -> None:
        told = {
            "{firm}": str(self.rail.world.firm_a),
            "{matter}": str(self.rail.world.matter(self.rail.world.firm_a)),
        }
        try:
            code = cli.main([told.get(argument, argument) for argument in arguments])
        except SystemExit as refused:
            raise AssertionError(f"{arguments} cannot be typed like that") from refused
        said = self.capture.readouterr()
        self.haul.add("commands", f"{arguments} {code}", said.out, said.err)

    def telemetry(self) -> None:
        """Take in what was exported so far."""
        for span in self.record.exporter.get_finished_spans():
            self.haul.add("spans", span.to_json(), span.context.trace_state.to_header())
        data = self.record.reader.get_metrics_data()
        if data is not None:
            self.haul.add("metrics", data.to_json())


@contextmanager
def weather(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Iterator[None]:
    """Set these variables while the block runs."""
    with monkeypatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield


def hostile_bodies(good: str, plant: Plant) -> Iterator[str]:
    """Yield bodies with a marker in each part of a message that a stranger writes."""
    fields = json.loads(good)
    yield plant.mark("a body that is no JSON")
    yield json.dumps([plant.mark("a body that is no object")])
    yield json.dumps({**fields, plant.mark("an unknown field's name"): 1})
    yield json.dumps({**fields, "title": plant.mark("an unknown field's value")})
    yield good[:-1] + f', "event_id": "{plant.mark("a doubled field")}"}}'
    yield json.dumps({**fields, "filler": plant.mark("an oversized body") * 20_000})
    for name in fields:
        if name not in {"traceparent", "tracestate"}:
            yield json.dumps({**fields, name: plant.mark(f"the field {name}")})
            yield json.dumps({**fields, name: {plant.mark(f"within the field {name}"): []}})
    for name in ("type", "id", plant.mark("the subject's field")):
        yield json.dumps({**fields, "subject": {**fields["subject"], name: plant.mark("subject")}})
    wrapper = {"detail-type": "matter.created", "detail": fields}
    for name in ("source", "detail-type", "detail", plant.mark("the wrapper's field")):
        yield json.dumps({**wrapper, "account": "1", name: plant.mark(f"wrapper: {name}"[:20])})
    parent = plant.mark("a traceparent that is none")
    yield json.dumps({**fields, "traceparent": parent, "environment": "elsewhere"})
    state = f"a sentence with {plant.mark('a tracestate that is none')}"
    yield json.dumps({**fields, "tracestate": state, "environment": "elsewhere"})
    # A malformed envelope has no parent, so that nothing of its trace is worth storing.
    state = f"vendor={plant.mark('the tracestate of a malformed envelope')}"
    yield json.dumps({**fields, "tracestate": state, "title": "x"})


def plant_content(day: Day) -> None:
    """Let the application hold markers wherever it holds content."""
    world, mark = day.rail.world, day.plant.mark
    world.god.execute("ALTER TABLE documents ADD body text")
    world.god.execute("ALTER TABLE matters ADD notes text")
    document = world.document(world.firm_a)
    world.god.execute(
        "UPDATE documents SET body = %s WHERE id = %s", [mark("a document's text"), document]
    )
    world.god.execute("UPDATE matters SET notes = %s", [mark("a matter's notes")])
    world.god.execute("UPDATE firms SET name = %s", [mark("a firm's name")])
    world.god.execute(
        "INSERT INTO agents.agent_run (firm_id, chat_session_id, user_id, agent_key, status) "
        "VALUES (%s, %s, %s, 'clerk_chat', 'running')",
        [
            world.firm_a,
            day.plant.know("a chat's id", str(uuid4())),
            day.plant.know("a user's id", str(uuid4())),
        ],
    )


def plant_rows(day: Day) -> None:
    """Let the outboxes hold rows that can never be sent, and one that no lane drains."""
    world, mark = day.rail.world, day.plant.mark
    envelope = {"note": mark("a row that is no envelope")}
    huge = {"note": mark("a row that is too large") * 20_000}
    with world.database.firm(world.firm_a) as connection:
        for kind, content in (
            ("matter.created", envelope),
            ("matter.created", huge),
            (f"a type with {mark('an event type in words')}", {}),
        ):
            connection.execute(
                text(
                    "INSERT INTO ops.domain_event_outbox (event_id, firm_id, event_type, envelope) "
                    "VALUES (gen_random_uuid(), :firm, :kind, CAST(:content AS jsonb))"
                ),
                {"firm": world.firm_a, "kind": kind, "content": json.dumps(content)},
            )
        connection.execute(
            text(
                "INSERT INTO ops.document_ingest_outbox (firm_id, document_id, event_type) "
                "SELECT firm_id, id, 'document.ingest.requested' FROM documents"
            )
        )


def send_with_attributes(day: Day, body: str) -> None:
    """Put a message on the queue with markers beside its body."""
    settings = day.rail.settings
    client("sqs", settings).send_message(
        QueueUrl=settings.require("framer_events_queue_url"),
        MessageBody=body,
        MessageAttributes={
            "note": {"DataType": "String", "StringValue": day.plant.mark("a message's attribute")},
            "event_type": {
                "DataType": "String",
                "StringValue": day.plant.mark("a message's event type"),
            },
        },
    )
