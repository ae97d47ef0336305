"""What the workers get to do: documents, matters, copies, hostile messages, lost connections.

Promises: whatever was committed here is known here, also where a connection broke at the commit.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError

from pramaan_pipelines.errors import DatabaseUnavailableError
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.outbox.producers import (
    create_matter,
    emit_domain_event,
    insert_document_ingest_event,
    request_registration,
)
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.soak.site import DOCUMENT_TABLE, DOMAIN_TABLE, ENVIRONMENT, Site
from pramaan_pipelines_tests.support.world import body, envelope

Write = Callable[[Connection], list[UUID]]
PID: Final = text("SELECT pg_backend_pid()")
INSERT_DOCUMENT: Final = text("INSERT INTO documents (id, firm_id) VALUES (:id, :firm)")
GIANT: Final = f"""
    INSERT INTO {DOMAIN_TABLE} (event_id, firm_id, event_type, envelope)
    VALUES (%s, %s, 'matter.created', %s)
"""  # noqa: S608 - a name of ours
NEWEST: Final = f"""
    SELECT envelope FROM {DOMAIN_TABLE}
    WHERE event_id <> ALL(%s) ORDER BY id DESC LIMIT 8
"""  # noqa: S608 - a name of ours
CUT: Final = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE usename = 'pramaan_app' AND random() < 0.5
"""
MOST_WAITING: Final = 25
"""Messages on the framer queue, past which none are made: the machine is to be busy, not late."""


class Traffic:
    """Makes it all, by chance.

    Attributes:
        produced: the events whose commit was confirmed.
        unsure: those whose commit was not: the table says.
        giants: events that can never be sent.
        hostile: the message ids of what must be refused.
        doubts: transactions whose commit nobody confirmed.
        copies: good messages that were sent again.
        cuts: connections that were cut.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._chance = site.chance
        self._database = Database.connect(site.settings.database_url)
        self._queue = client("sqs", site.settings)
        self._queue_url = site.settings.require("framer_events_queue_url")
        self._matters: list[tuple[UUID, UUID]] = []
        self.produced: set[UUID] = set()
        self.unsure: set[UUID] = set()
        self.giants: set[UUID] = set()
        self.hostile: set[str] = set()
        self.doubts = 0
        self.copies = 0
        self.cuts = 0

    def begin(self) -> None:
        """Let each kind of trouble come once at least."""
        while not self._matters:
            self._matter()
        for hostile in self._hostile_bodies(*self._matters[0]):
            self.hostile.add(self._send(hostile))
        self._giant()

    def a_moment(self) -> None:
        """Let a quarter of a second's worth happen."""
        chance = self._chance
        for _ in range(chance.randint(0, 4)):
            self._documents()
        if self._waiting() < MOST_WAITING:
            if chance.random() < 0.35:
                self._matter()
            if chance.random() < 0.04:
                self._copy()
            if chance.random() < 0.03:
                self._hostile()
        if chance.random() < 0.01:
            self._giant()
        if chance.random() < 0.04:
            self._site.set_consent(self._site.firms.wavering, granted=chance.random() < 0.5)
        if chance.random() < 0.05:
            self.cuts += self._site.one(CUT)

    def count_up(self) -> None:
        """Ask the tables about what nobody confirmed."""
        for table in (DOCUMENT_TABLE, DOMAIN_TABLE):
            query = f"SELECT event_id FROM {table} WHERE event_id = ANY(%s)"  # noqa: S608
            self.produced |= {event for (event,) in self._site.rows(query, list(self.unsure))}
        self.unsure.clear()

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def _documents(self) -> None:
        firm = self._chance.choice(list(self._site.firms))
        registration = self._chance.random() < 0.5

        def write(connection: Connection) -> list[UUID]:
            events = []
            for _ in range(self._chance.randint(1, 4)):
                document = uuid4()
                connection.execute(INSERT_DOCUMENT, {"id": document, "firm": firm})
                ask = request_registration if registration else insert_document_ingest_event
                event = ask(connection, firm_id=firm, document_id=document)
                assert event is not None
                events.append(event)
            return events

        self._commit(firm, write)

    def _matter(self) -> None:
        """Create one, or let something happen again to one that is there, perhaps twice at once."""
        if self._matters and self._chance.random() < 0.5:
            firm, matter = self._chance.choice(self._matters[-6:])
            again = [envelope(firm, matter, environment=ENVIRONMENT)]
            if self._chance.random() < 0.4:
                again.append(envelope(firm, matter, environment=ENVIRONMENT))
            self._commit(firm, lambda c: [emit_domain_event(c, event) for event in again])
            return
        firm = self._chance.choice(list(self._site.firms))

        def create(connection: Connection) -> list[UUID]:
            made = create_matter(
                connection, firm_id=firm, title="A matter", environment=ENVIRONMENT
            )
            matters.append((firm, made.matter_id))
            return [made.event_id]

        matters: list[tuple[UUID, UUID]] = []
        if self._commit(firm, create):
            self._matters += matters

    def _commit(self, firm: UUID, write: Write) -> bool:
        events: list[UUID] = []
        try:
            with self._database.firm(firm) as connection:
                events += write(connection)
                if self._chance.random() < 0.01:
                    self._site.one("SELECT pg_terminate_backend(%s, 5000)", connection.scalar(PID))
        except (SQLAlchemyError, DatabaseUnavailableError):
            self.doubts += 1
            self.unsure |= set(events)  # cut while it wrote, or while it committed
            return False
        self.produced |= set(events)
        return True

    def _copy(self) -> None:
        """Send an event again that the queue may well have had already."""
        found = self._site.rows(NEWEST, list(self.giants))
        if found:
            self._send(json.dumps(self._chance.choice(found)[0]))
            self.copies += 1

    def _hostile(self) -> None:
        if self._matters:
            firm, matter = self._chance.choice(self._matters)
            self.hostile.add(self._send(self._chance.choice(self._hostile_bodies(firm, matter))))

    def _hostile_bodies(self, firm: UUID, matter: UUID) -> list[str]:
        other = next(f for f in self._site.firms if f != firm)
        told = {"environment": ENVIRONMENT}
        return [
            "{",
            "[]",
            "null",
            body(firm, matter, **told, more="a field that nobody knows"),
            body(firm, matter, environment="elsewhere"),
            body(firm, uuid4(), **told),
            body(other, matter, **told),
            body(firm, matter, **told, schema_version=True),
        ]

    def _giant(self) -> None:
        event, firm = uuid4(), self._site.firms.steady[0]
        value = json.loads(envelope(firm, uuid4(), event_id=event).model_dump_json())
        self._site.god.execute(GIANT, [event, firm, Jsonb({**value, "more": "x" * 300_000})])
        self.giants.add(event)

    def _send(self, text_of: str) -> str:
        sent = self._queue.send_message(QueueUrl=self._queue_url, MessageBody=text_of)
        return sent["MessageId"]

    def _waiting(self) -> int:
        with suppress(KeyError):
            found = self._queue.get_queue_attributes(
                QueueUrl=self._queue_url, AttributeNames=["ApproximateNumberOfMessages"]
            )
            return int(found["Attributes"]["ApproximateNumberOfMessages"])
        return 0
