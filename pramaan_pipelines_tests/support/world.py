"""Firms, matters and documents to test with, and a look at what the tables hold."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import psycopg
from sqlalchemy import text

from pramaan_pipelines.contracts.envelopes import MatterCreated, MatterSubject
from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.outbox.producers import CreatedMatter, create_matter
from pramaan_pipelines.store.database import Database

ENVIRONMENT = "test"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03"
TRACESTATE = "vendor=opaque"


@dataclass
class World:
    """Everything a test needs of the application's side.

    Attributes:
        database: as the service role, through scopes.
        god: a superuser's connection, to look past row level security and to arrange faults.
        firm_a: a firm that consents.
        firm_b: another one.
        firm_without_consent: a firm that does not.
    """

    database: Database
    god: psycopg.Connection[tuple[Any, ...]]
    firm_a: UUID
    firm_b: UUID
    firm_without_consent: UUID

    @classmethod
    def build(cls, database: Database, god: psycopg.Connection[tuple[Any, ...]]) -> "World":
        """Make the firms."""
        world = cls(database, god, uuid4(), uuid4(), uuid4())
        for firm, consents in (
            (world.firm_a, True),
            (world.firm_b, True),
            (world.firm_without_consent, False),
        ):
            with database.firm(firm) as connection:
                connection.execute(
                    text("INSERT INTO firms (id, name) VALUES (:id, 'A firm')"), {"id": firm}
                )
            world.set_consent(firm, granted=consents)
        return world

    def set_consent(self, firm: UUID, *, granted: bool | None) -> None:
        """Grant or revoke; None removes the row."""
        self.god.execute("DELETE FROM firm_inference_egress_consents WHERE firm_id = %s", [firm])
        if granted is not None:
            self.god.execute(
                "INSERT INTO firm_inference_egress_consents VALUES (%s, %s)", [firm, granted]
            )

    def matter(self, firm: UUID) -> UUID:
        """Insert a matter without an event."""
        matter = uuid4()
        with self.database.firm(firm) as connection:
            connection.execute(
                text("INSERT INTO matters (id, firm_id, title) VALUES (:id, :firm, 'A matter')"),
                {"id": matter, "firm": firm},
            )
        return matter

    def created_matter(self, firm: UUID) -> CreatedMatter:
        """Create a matter as the application does, with its event in the outbox."""
        with self.database.firm(firm) as connection:
            return create_matter(
                connection, firm_id=firm, title="A matter", environment=ENVIRONMENT
            )

    def document(self, firm: UUID) -> UUID:
        """Insert a document."""
        document = uuid4()
        with self.database.firm(firm) as connection:
            connection.execute(
                text("INSERT INTO documents (id, firm_id) VALUES (:id, :firm)"),
                {"id": document, "firm": firm},
            )
        return document

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return what `query` finds, past row level security."""
        return self.god.execute(query, parameters).fetchall()

    def one(self, query: str, *parameters: object) -> Any:
        """Return the single value that `query` finds."""
        ((value,),) = self.rows(query, *parameters)
        return value

    def pending(self, event_type: str) -> int:
        """Count the rows of `event_type` that no relay has sent or parked."""
        total = 0
        for table in ("document_ingest_outbox", "domain_event_outbox"):
            total += self.one(
                f"SELECT count(*) FROM ops.{table} WHERE event_type = %s "  # noqa: S608 - names of ours
                "AND dispatched_at IS NULL AND parked_at IS NULL",
                event_type,
            )
        return total

    def job(self, matter: UUID) -> dict[str, Any] | None:
        """Return the matter's frame job as a dictionary."""
        cursor = self.god.execute(
            "SELECT to_jsonb(j) FROM ops.matter_frame_jobs j WHERE matter_id = %s", [matter]
        )
        row = cursor.fetchone()
        return None if row is None else dict(row[0])

    def runs(self, matter: UUID) -> list[dict[str, Any]]:
        """Return the matter's agent runs, oldest first."""
        cursor = self.god.execute(
            "SELECT to_jsonb(r) FROM agents.agent_run r WHERE matter_id = %s ORDER BY created_at",
            [matter],
        )
        return [dict(row[0]) for row in cursor.fetchall()]


def envelope(
    firm: UUID,
    matter: UUID,
    *,
    event_id: UUID | None = None,
    environment: str = ENVIRONMENT,
    traceparent: str | None = TRACEPARENT,
) -> MatterCreated:
    """Return a `matter.created` envelope."""
    return MatterCreated(
        event_id=event_id or uuid4(),
        event_type=EventType.MATTER_CREATED,
        schema_version=1,
        environment=environment,
        occurred_at=datetime.now(UTC),
        firm_id=firm,
        subject=MatterSubject(type="matter", id=matter),
        traceparent=traceparent,
        tracestate=TRACESTATE if traceparent else None,
    )


def body(firm: UUID, matter: UUID, **changes: object) -> str:
    """Return an envelope's JSON text, with `changes` made to it."""
    value = json.loads(envelope(firm, matter).model_dump_json())
    return json.dumps({**value, **changes})
