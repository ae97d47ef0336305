"""One canary through each lane: from a row, by the relay's own drain, to its real destination.

Promises: the row is written, drained and marked by what a relay run uses, as the service's role; no
other row is read, locked or sent; the transaction is rolled back, so that nothing stays behind.
Never: leaves a row, or a message that means work: see `contracts.canary`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from pramaan_pipelines.contracts.canary import CANARY_FIRM_ID, CANARY_SUBJECT_ID
from pramaan_pipelines.contracts.envelopes import MatterCreated, MatterSubject
from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.errors import PramaanError
from pramaan_pipelines.outbox.lanes import DOCUMENT_OUTBOX, DOMAIN_OUTBOX, LANES, Lane, Outbox
from pramaan_pipelines.outbox.producers import emit_domain_event, insert_document_ingest_event
from pramaan_pipelines.outbox.relay import RelayRun, run_relay
from pramaan_pipelines.outbox.selection import DrainLimits, Due
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import FIRM_ADMIN, Database, enter_firm, enter_staff, told_of
from pramaan_pipelines.telemetry.provider import Telemetry

SMOKE_SECONDS: Final = 20.0

WANTS_ROWS: Final = (
    f"The application's outbox wants its firm and document to exist: insert a firm and a document "
    f"with the id {CANARY_FIRM_ID} once, without consent, and leave them there"
)

# Reads {table}_event_id_key.
ROW_OF_EVENT: Final = "SELECT id FROM {table} WHERE event_id = :event_id"


@dataclass(frozen=True)
class Smoke:
    """What became of one lane's canary."""

    lane: str
    passed: bool
    told: str


class Rehearsal(Database):
    """A database whose scopes are parts of one transaction, which never commits."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @contextmanager
    def firm(
        self, firm_id: UUID, *, user_id: UUID | None = None, role: str = FIRM_ADMIN
    ) -> Iterator[Connection]:
        """Work under a firm, in a savepoint."""
        with self._connection.begin_nested():
            enter_firm(self._connection, firm_id, user_id=user_id, role=role)
            yield self._connection

    @contextmanager
    def staff(self) -> Iterator[Connection]:
        """Work as the staff worker, in a savepoint."""
        with self._connection.begin_nested():
            enter_staff(self._connection)
            yield self._connection


@contextmanager
def rehearsal(database: Database) -> Iterator[Rehearsal]:
    """Open one, and roll it back whatever happens."""
    with database.unscoped() as connection:
        try:
            yield Rehearsal(connection)
        finally:
            connection.get_transaction().rollback()  # type: ignore[union-attr] # the scope's own


def smoke(settings: Settings, database: Database, telemetry: Telemetry) -> list[Smoke]:
    """Send one canary through each lane; one that fails is told and stops no other."""
    return [_smoke(settings, database, telemetry, lane) for lane in LANES]


def _smoke(settings: Settings, database: Database, telemetry: Telemetry, lane: Lane) -> Smoke:
    try:
        publisher = lane.publisher(settings)
        publisher.verify()
        with rehearsal(database) as rehearsed:
            with rehearsed.firm(CANARY_FIRM_ID) as connection:
                event_id = CANARIES[lane.outbox](connection, lane, settings)
                query = text(ROW_OF_EVENT.format(table=lane.outbox.table))
                row_id = connection.scalar(query, {"event_id": event_id})
            run = run_relay(
                lane,
                database=rehearsed,
                publisher=publisher,
                telemetry=telemetry,
                limits=DrainLimits(rows=1, send_seconds=SMOKE_SECONDS),
                budget_seconds=SMOKE_SECONDS,
                selection=Due(only=row_id),
            )
    except PramaanError as error:
        return Smoke(lane.name, passed=False, told=str(error))
    except IntegrityError as error:
        return Smoke(lane.name, passed=False, told=f"{told_of(error)}. {WANTS_ROWS}")
    except Exception as error:  # noqa: BLE001 - a lane that breaks is a red lane, not the end
        return Smoke(lane.name, passed=False, told=f"{type(error).__name__}: {told_of(error)}")
    return _told(lane, publisher.destination, run)


def _told(lane: Lane, destination: str, run: RelayRun) -> Smoke:
    if (run.selected, run.sent) == (1, 1):
        return Smoke(lane.name, passed=True, told=f"the canary was taken by {destination}")
    why = run.outage or next((failure.detail for failure in run.failures), "it was not selected")
    return Smoke(lane.name, passed=False, told=f"{destination} did not take the canary: {why}")


def _document_canary(connection: Connection, lane: Lane, _: Settings) -> UUID:
    return insert_document_ingest_event(
        connection,
        firm_id=CANARY_FIRM_ID,
        document_id=CANARY_SUBJECT_ID,
        event_type=lane.event_type,
    )


def _domain_canary(connection: Connection, _: Lane, settings: Settings) -> UUID:
    return emit_domain_event(
        connection,
        MatterCreated(
            event_id=uuid4(),
            event_type=EventType.MATTER_CREATED,
            schema_version=1,
            environment=settings.pramaan_environment,
            occurred_at=datetime.now(UTC),
            firm_id=CANARY_FIRM_ID,
            subject=MatterSubject(type="matter", id=CANARY_SUBJECT_ID),
        ),
    )


CANARIES: Final[Mapping[Outbox, Callable[[Connection, Lane, Settings], UUID]]] = {
    DOCUMENT_OUTBOX: _document_canary,
    DOMAIN_OUTBOX: _domain_canary,
}
