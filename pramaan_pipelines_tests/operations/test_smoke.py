"""`pramaan doctor --smoke`: a canary through each lane, and nothing of it afterwards."""

import json
from typing import TYPE_CHECKING

import pytest

from pramaan_pipelines.cli import main
from pramaan_pipelines.contracts.canary import CANARY_FIRM_ID, CANARY_SUBJECT_ID
from pramaan_pipelines.contracts.envelopes import DocumentEnvelope, parse_matter_created
from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.publisher import SendResult, SendStatus
from pramaan_pipelines.messaging.sqs import DocumentIngestQueueClient
from pramaan_pipelines.outbox.lanes import LANES, OUTBOXES
from pramaan_pipelines.outbox.producers import insert_document_ingest_event
from pramaan_pipelines.outbox.smoke import CANARIES, smoke
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.world import World

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

QUEUES = (
    "document_ingestion_queue_url",
    "document_registration_queue_url",
    "framer_events_queue_url",
)


def on(sqs: "SQSClient", url: str) -> list[str]:
    received = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=2, MaxNumberOfMessages=10)
    return [message["Body"] for message in received.get("Messages", [])]


def test_a_canary_of_each_lane_reaches_its_queue_and_nothing_stays_in_the_database(
    configured: Settings, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    document = world.document(world.firm_a)
    with world.database.firm(world.firm_a) as connection:
        waiting = insert_document_ingest_event(
            connection, firm_id=world.firm_a, document_id=document
        )
    world.created_matter(world.firm_b)
    before = everything(world)
    assert main(["doctor", "--smoke"]) == 0
    told = capsys.readouterr().out
    for lane in LANES:
        assert f"smoke: {lane.name}" in told
    assert everything(world) == before  # also the rows of the firms that were due: not sent
    sqs = client("sqs", configured)
    ingestion, registration, framer = (on(sqs, configured.require(name)) for name in QUEUES)
    for bodies, event_type in (
        (ingestion, EventType.DOCUMENT_INGEST_REQUESTED),
        (registration, EventType.DOCUMENT_REGISTRATION_REQUESTED),
    ):
        (body,) = bodies
        envelope = DocumentEnvelope.model_validate_json(body)
        assert (envelope.firm_id, envelope.event_type) == (CANARY_FIRM_ID, event_type)
        assert str(waiting) not in body
    (body,) = framer
    created = parse_matter_created(body)
    assert created.firm_id == CANARY_FIRM_ID
    assert created.environment == configured.pramaan_environment


def test_a_lane_whose_destination_is_gone_is_red_and_the_others_are_told_all_the_same(
    configured: Settings, world: World, record: TelemetryRecord
) -> None:
    sqs = client("sqs", configured)
    sqs.delete_queue(QueueUrl=configured.require("document_registration_queue_url"))
    found = {each.lane: each for each in smoke(configured, world.database, record.telemetry)}
    assert not found["document_registration_relay"].passed
    assert "pramaan-documents-registration" in found["document_registration_relay"].told
    assert found["document_ingest_relay"].passed
    assert found["domain_event_relay"].passed


def test_a_destination_that_refuses_the_canary_is_red_by_its_own_words(
    configured: Settings,
    world: World,
    record: TelemetryRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no = SendResult(SendStatus.IMPOSSIBLE, "a reason")
    monkeypatch.setattr(DocumentIngestQueueClient, "_problem", lambda *_: no)
    before = everything(world)
    found = {each.lane: each for each in smoke(configured, world.database, record.telemetry)}
    assert "did not take the canary: a reason" in found["document_ingest_relay"].told
    assert everything(world) == before  # not even parked


def test_an_outbox_with_foreign_keys_says_which_rows_a_canary_wants_once(
    configured: Settings, world: World, record: TelemetryRecord
) -> None:
    world.god.execute(
        "ALTER TABLE ops.document_ingest_outbox ADD FOREIGN KEY (document_id) REFERENCES documents"
    )
    found = {each.lane: each for each in smoke(configured, world.database, record.telemetry)}
    assert f"with the id {CANARY_FIRM_ID} once" in found["document_ingest_relay"].told
    world.god.execute("INSERT INTO firms (id, name) VALUES (%s, 'canary')", [CANARY_FIRM_ID])
    world.god.execute(
        "INSERT INTO documents (id, firm_id) VALUES (%s, %s)", [CANARY_SUBJECT_ID, CANARY_FIRM_ID]
    )
    assert all(each.passed for each in smoke(configured, world.database, record.telemetry))


def test_smoke_waits_for_a_green_examination(
    configured: Settings,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del world
    monkeypatch.setenv("EVENT_BUS_NAME", "no-such-bus")
    assert main(["doctor", "--smoke", "--json"]) == 1
    names = {check["name"] for check in json.loads(capsys.readouterr().out)}
    assert not any(name.startswith("smoke") for name in names)
    assert on(client("sqs", configured), configured.require(QUEUES[0])) == []


def test_every_outbox_has_a_canary() -> None:
    assert set(CANARIES) == set(OUTBOXES)


def everything(world: World) -> list[object]:
    return [
        world.rows(f"SELECT to_jsonb(o) FROM {table} o ORDER BY 1")  # noqa: S608 - ours
        for table in (
            *(outbox.table for outbox in OUTBOXES),
            "ops.matter_frame_jobs",
            "agents.agent_run",
            "firms",
            "matters",
            "documents",
        )
    ]
