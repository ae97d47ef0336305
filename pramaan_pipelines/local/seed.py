"""Sample data: three firms, one of them without consent, with matters and documents.

Promises: seeding twice adds nothing; everything is written as the service role, each firm under its
own scope, the way the application would.
Never: names a real person or firm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import NAMESPACE_URL, UUID, uuid4, uuid5

from sqlalchemy import Connection, text

from pramaan_pipelines.outbox.producers import (
    create_matter,
    insert_document_ingest_event,
    request_registration,
)
from pramaan_pipelines.store.database import Database

INSERT_FIRM: Final = text(
    "INSERT INTO firms (id, name) VALUES (:id, :name) ON CONFLICT DO NOTHING RETURNING id"
)
INSERT_CONSENT: Final = text(
    "INSERT INTO firm_inference_egress_consents (firm_id, granted) VALUES (:id, :granted) "
    "ON CONFLICT DO NOTHING"
)
INSERT_DOCUMENT: Final = text(
    "INSERT INTO documents (id, firm_id, matter_id, registration_status) "
    "VALUES (:id, :firm_id, :matter_id, :status)"
)


@dataclass(frozen=True)
class SampleFirm:
    """A firm of the sample data; `consents` None means that it was never asked."""

    name: str
    consents: bool | None

    @property
    def id(self) -> UUID:
        """The same on every machine."""
        return uuid5(NAMESPACE_URL, f"pramaan-sample/{self.name}")


ASHA: Final = SampleFirm("Asha Legal (sample)", consents=True)
BANYAN: Final = SampleFirm("Banyan Law (sample)", consents=True)
CEDAR: Final = SampleFirm("Cedar Chambers (sample, no consent)", consents=None)
FIRMS: Final = (ASHA, BANYAN, CEDAR)


def seed(database: Database, environment: str, firms: Sequence[SampleFirm] = FIRMS) -> int:
    """Write the sample data where it is absent.

    Args:
        database: as the service role.
        environment: stamped on the events.
        firms: which of the firms.

    Returns:
        How many firms were new.
    """
    return sum(_seed_firm(database, environment, firm) for firm in firms)


def ensure_firm(connection: Connection, firm: SampleFirm) -> bool:
    """Write the firm and its consent; True when it was new. The scope is the firm's."""
    new = connection.execute(INSERT_FIRM, {"id": firm.id, "name": firm.name}).first() is not None
    if new and firm.consents is not None:
        connection.execute(INSERT_CONSENT, {"id": firm.id, "granted": firm.consents})
    return new


def new_document(
    connection: Connection, firm_id: UUID, matter_id: UUID | None, status: str = "not_requested"
) -> UUID:
    """Insert a document without an event; returns its id."""
    document_id = uuid4()
    connection.execute(
        INSERT_DOCUMENT,
        {"id": document_id, "firm_id": firm_id, "matter_id": matter_id, "status": status},
    )
    return document_id


def _seed_firm(database: Database, environment: str, firm: SampleFirm) -> bool:
    with database.firm(firm.id) as connection:
        if not ensure_firm(connection, firm):
            return False
        matter = create_matter(
            connection, firm_id=firm.id, title="A sample matter", environment=environment
        )
        uploaded = new_document(connection, firm.id, matter.matter_id)
        insert_document_ingest_event(connection, firm_id=firm.id, document_id=uploaded)
        indexed = new_document(connection, firm.id, matter.matter_id)
        request_registration(connection, firm_id=firm.id, document_id=indexed)
        new_document(connection, firm.id, matter.matter_id, "registered")
        return True
