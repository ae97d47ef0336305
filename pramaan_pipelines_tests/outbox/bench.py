"""Rows to drain, answers to give, and what a drain is called with."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.outbox.drain import (
    DrainResult,
    relay_pending_document_ingest_events,
    relay_pending_document_registration_events,
    relay_pending_domain_events,
)
from pramaan_pipelines.outbox.lanes import (
    DOCUMENT_INGEST,
    DOCUMENT_OUTBOX,
    DOCUMENT_REGISTRATION,
    DOMAIN_EVENT,
    Lane,
)
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.stub import Behaviour, Reply, Request, bodies
from pramaan_pipelines_tests.support.world import TRACEPARENT, TRACESTATE, World

RELAYS = {
    DOCUMENT_INGEST: relay_pending_document_ingest_events,
    DOCUMENT_REGISTRATION: relay_pending_document_registration_events,
    DOMAIN_EVENT: relay_pending_domain_events,
}

INSERT_DOCUMENT_ROWS = """
    INSERT INTO ops.document_ingest_outbox
        (firm_id, document_id, event_type, traceparent, tracestate)
    SELECT %(firm)s, gen_random_uuid(), %(event_type)s, %(traceparent)s, %(tracestate)s
    FROM generate_series(1, %(count)s)
    RETURNING event_id
"""
INSERT_DOMAIN_ROWS = """
    INSERT INTO ops.domain_event_outbox
        (event_id, firm_id, event_type, envelope, traceparent, tracestate)
    SELECT event_id, %(firm)s, %(event_type)s, jsonb_build_object(
        'event_id', event_id, 'event_type', %(event_type)s::text, 'schema_version', 1,
        'environment', 'test', 'occurred_at', now(), 'firm_id', %(firm)s::uuid,
        'subject', jsonb_build_object('type', 'matter', 'id', gen_random_uuid())
    ) || %(more)s, %(traceparent)s, %(tracestate)s
    FROM (SELECT gen_random_uuid() AS event_id FROM generate_series(1, %(count)s)) AS made
    RETURNING event_id
"""


def put(
    world: World,
    lane: Lane,
    count: int = 1,
    *,
    traceparent: str | None = TRACEPARENT,
    tracestate: str | None = TRACESTATE,
    event_type: str | None = None,
    more: dict[str, str] | None = None,
) -> list[str]:
    """Write rows into the lane's outbox and return their event ids, oldest first.

    Args:
        world: whose firm A they belong to.
        lane: which outbox and event type.
        count: how many.
        traceparent: what the producer stamped.
        tracestate: what the producer stamped.
        event_type: another type than the lane's.
        more: of a domain event, what its envelope holds besides, or instead.
    """
    documents = lane.outbox is DOCUMENT_OUTBOX
    found = world.god.execute(
        INSERT_DOCUMENT_ROWS if documents else INSERT_DOMAIN_ROWS,
        {
            "firm": world.firm_a,
            "event_type": event_type or str(lane.event_type),
            "count": count,
            "traceparent": traceparent,
            "tracestate": tracestate,
            "more": Jsonb(more or {}),
        },
    )
    return [str(event_id) for (event_id,) in found]


def row(world: World, lane: Lane, event_id: str) -> dict[str, Any]:
    """Return the outbox row of `event_id` as a dictionary."""
    found: dict[str, Any] = world.one(
        f"SELECT to_jsonb(o) FROM {lane.outbox.table} o WHERE event_id = %s",  # noqa: S608
        UUID(event_id),
    )
    return found


def rows(world: World, lane: Lane, event_ids: list[str]) -> list[dict[str, Any]]:
    return [row(world, lane, event_id) for event_id in event_ids]


def make_due(world: World, lane: Lane) -> None:
    """Let every pause of the lane's outbox end now."""
    world.god.execute(f"UPDATE {lane.outbox.table} SET next_attempt_at = now()")  # noqa: S608


def pause_ahead(world: World, lane: Lane, event_id: str) -> float:
    """Return the seconds until the row is due again."""
    seconds = world.one(
        "SELECT extract(epoch FROM next_attempt_at - clock_timestamp()) "  # noqa: S608
        f"FROM {lane.outbox.table} WHERE event_id = %s",
        UUID(event_id),
    )
    return float(seconds)


@dataclass
class Relay:
    """One lane's relay, ready to drain."""

    lane: Lane
    settings: Settings
    database: Database
    record: TelemetryRecord

    def drain(self, **limits: Any) -> DrainResult:
        """Drain one batch, with `limits` other than the default."""
        return RELAYS[self.lane](
            self.database,
            self.lane.publisher(self.settings),
            self.record.telemetry,
            DrainLimits(**limits),
        )


def event_ids(requests: list[Request]) -> list[str]:
    """Return the event ids of what was sent, call by call."""
    return [json.loads(body)["event_id"] for request in requests for body in bodies(request)]


ABSENT = "absent"


def answering(verdict: Callable[[str], str | None]) -> Behaviour:
    """Answer entry by entry, for either service.

    Args:
        verdict: from an event id to an error code; None accepts; ABSENT names the entry nowhere.
    """

    def behaviour(request: Request) -> Reply:
        taken: list[dict[str, Any]] = []
        failed: list[dict[str, Any]] = []
        entries: list[dict[str, Any]] = []
        for entry, body in zip(request["Entries"], bodies(request), strict=True):
            code, name = verdict(json.loads(body)["event_id"]), entry.get("Id")
            if code is None:
                taken.append({"Id": name, "MessageId": "m"})
                entries.append({"EventId": "e"})
            elif code == ABSENT:
                entries.append({})
            else:
                failed.append({"Id": name, "Code": code, "SenderFault": True})
                entries.append({"ErrorCode": code})
        return 200, {
            "Successful": taken,
            "Failed": failed,
            "FailedEntryCount": len(failed),
            "Entries": entries,
        }

    return behaviour


def received(settings: Settings, queue_url: str | None, count: int) -> list[dict[str, Any]]:
    """Take `count` messages off a queue, and fail where more or fewer stand in it."""
    queue = client("sqs", settings)
    taken: list[dict[str, Any]] = []
    while True:
        answer = queue.receive_message(
            QueueUrl=str(queue_url),
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            WaitTimeSeconds=1 if len(taken) < count else 0,
        )
        found = answer.get("Messages", [])
        if not found:
            break
        taken.extend(dict(message) for message in found)
    assert len(taken) == count
    return taken
