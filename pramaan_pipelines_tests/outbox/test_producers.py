"""What the application calls inside its own transaction."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import Session

from pramaan_pipelines.contracts.envelopes import parse_matter_created
from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.errors import ScopeError
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST
from pramaan_pipelines.outbox.producers import (
    CreatedMatter,
    create_matter,
    emit_domain_event,
    insert_document_ingest_event,
    request_registration,
)
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import enter_firm
from pramaan_pipelines_tests.outbox.bench import Relay
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.stub import Stub, bodies
from pramaan_pipelines_tests.support.waiting import until_blocked
from pramaan_pipelines_tests.support.world import ENVIRONMENT, World, envelope

TITLE = "Sharma v. Union of India, draft"


class _RolledBackError(Exception):
    """What the caller raises to end its transaction."""


@contextmanager
def rolled_back(world: World, firm: UUID) -> Iterator[Connection]:
    """Open a scope as `Database.firm` does, and fail at its end."""
    with suppress(_RolledBackError), world.database.firm(firm) as connection:
        yield connection
        raise _RolledBackError


def batons(world: World, document: UUID) -> list[dict[str, Any]]:
    found = world.rows(
        "SELECT to_jsonb(o) FROM ops.document_ingest_outbox o WHERE document_id = %s", document
    )
    return [value for (value,) in found]


def status(world: World, document: UUID) -> str:
    found: str = world.one("SELECT registration_status FROM documents WHERE id = %s", document)
    return found


def request(world: World, document: UUID, firm: UUID | None = None) -> UUID | None:
    firm = firm or world.firm_a
    with world.database.firm(firm) as connection:
        return request_registration(connection, firm_id=firm, document_id=document)


def test_an_ingest_event_is_one_row_stamped_with_the_live_span(
    world: World, record: TelemetryRecord
) -> None:
    document = world.document(world.firm_a)
    with (
        record.telemetry.tracer.start_as_current_span("finalize") as span,
        world.database.firm(world.firm_a) as connection,
    ):
        event = insert_document_ingest_event(connection, firm_id=world.firm_a, document_id=document)
        live = span.get_span_context()
    (baton,) = batons(world, document)
    assert (baton["event_id"], baton["firm_id"]) == (str(event), str(world.firm_a))
    assert baton["event_type"] == "document.ingest.requested"
    assert baton["traceparent"].split("-")[1:3] == [
        f"{live.trace_id:032x}",
        f"{live.span_id:016x}",
    ]
    assert (baton["dispatched_at"], baton["attempts"], baton["parked_at"]) == (None, 0, None)


def test_without_a_live_span_a_row_has_no_trace(world: World) -> None:
    document = world.document(world.firm_a)
    with world.database.firm(world.firm_a) as connection:
        insert_document_ingest_event(connection, firm_id=world.firm_a, document_id=document)
    (baton,) = batons(world, document)
    assert (baton["traceparent"], baton["tracestate"]) == (None, None)


def test_a_registration_request_moves_the_status_and_writes_one_baton(
    world: World, record: TelemetryRecord
) -> None:
    document = world.document(world.firm_a)
    assert status(world, document) == "not_requested"
    with record.telemetry.tracer.start_as_current_span("extraction") as span:
        event = request(world, document)
        trace_id = f"{span.get_span_context().trace_id:032x}"
    assert status(world, document) == "queued"
    (baton,) = batons(world, document)
    assert (baton["event_id"], baton["event_type"]) == (
        str(event),
        "document.registration.requested",
    )
    assert trace_id in baton["traceparent"]


def test_a_registration_requested_twice_writes_one_baton(world: World) -> None:
    document = world.document(world.firm_a)
    assert request(world, document) is not None
    assert request(world, document) is None
    assert len(batons(world, document)) == 1


@pytest.mark.parametrize("later", ["registering", "registered", "failed"])
def test_a_registration_that_went_on_is_not_requested_again(world: World, later: str) -> None:
    document = world.document(world.firm_a)
    world.god.execute(
        "UPDATE documents SET registration_status = %s WHERE id = %s", [later, document]
    )
    assert request(world, document) is None
    assert status(world, document) == later
    assert batons(world, document) == []


@pytest.mark.parametrize("first_commits", [True, False])
def test_two_requests_at_once_write_one_baton(world: World, *, first_commits: bool) -> None:
    document = world.document(world.firm_a)
    scope = world.database.firm if first_commits else partial(rolled_back, world)
    with ThreadPoolExecutor(1) as pool:
        with scope(world.firm_a) as connection:
            first = request_registration(connection, firm_id=world.firm_a, document_id=document)
            later = pool.submit(request, world, document)
            until_blocked(world)
        second = later.result()
    (baton,) = batons(world, document)
    assert baton["event_id"] == str(first if first_commits else second)
    assert (second is None) == first_commits
    assert status(world, document) == "queued"


def test_a_request_goes_with_the_caller_s_transaction(world: World) -> None:
    document = world.document(world.firm_a)
    with rolled_back(world, world.firm_a) as connection:
        request_registration(connection, firm_id=world.firm_a, document_id=document)
    assert status(world, document) == "not_requested"
    assert batons(world, document) == []


@pytest.mark.parametrize("claimed", ["firm_a", "firm_b"])
def test_a_request_under_another_firm_s_scope_is_an_error(world: World, claimed: str) -> None:
    document = world.document(world.firm_a)
    with (
        pytest.raises(ScopeError, match="open the scope of its firm"),
        world.database.firm(world.firm_b) as connection,
    ):
        request_registration(connection, firm_id=getattr(world, claimed), document_id=document)
    assert status(world, document) == "not_requested"
    assert batons(world, document) == []


def test_a_request_for_a_document_that_is_not_there_is_an_error(world: World) -> None:
    with pytest.raises(ScopeError):
        request(world, uuid4())


def test_a_firm_that_announces_another_s_document_is_carried_under_its_own_name_alone(
    world: World, stub: Stub, stubbed: Settings, record: TelemetryRecord
) -> None:
    """What docs/isolation.md says: whoever consumes it sees no such document under that firm."""
    foreign, visible = world.document(world.firm_a), text("SELECT id FROM public.documents")
    with world.database.firm(world.firm_b) as connection:
        insert_document_ingest_event(connection, firm_id=world.firm_b, document_id=foreign)
    assert Relay(DOCUMENT_INGEST, stubbed, world.database, record).drain().sent == 1
    ((sent,),) = [bodies(request) for request in stub.requests]
    assert str(world.firm_a) not in sent
    told = json.loads(sent)
    assert (told["firm_id"], told["document_id"]) == (str(world.firm_b), str(foreign))
    with world.database.firm(UUID(told["firm_id"])) as connection:
        assert foreign not in set(connection.scalars(visible))
    assert status(world, foreign) == "not_requested"


def test_no_producer_writes_into_another_firm_s_outbox(world: World) -> None:
    document = world.document(world.firm_a)
    foreign = envelope(world.firm_a, world.matter(world.firm_a))
    writes: list[Callable[[Connection], UUID]] = [
        lambda c: insert_document_ingest_event(c, firm_id=world.firm_a, document_id=document),
        lambda c: emit_domain_event(c, foreign),
    ]
    for write in writes:
        with (
            pytest.raises(ProgrammingError, match="row-level security"),
            world.database.firm(world.firm_b) as connection,
        ):
            write(connection)
    assert batons(world, document) == []
    assert world.pending(EventType.MATTER_CREATED) == 0


def stored_event(world: World, created: CreatedMatter) -> tuple[str, dict[str, Any]]:
    """Return the envelope's text and its row."""
    ((body, found),) = world.rows(
        "SELECT envelope::text, to_jsonb(o) FROM ops.domain_event_outbox o WHERE event_id = %s",
        created.event_id,
    )
    return body, found


def test_a_matter_and_its_event_commit_together(world: World, record: TelemetryRecord) -> None:
    with (
        record.telemetry.tracer.start_as_current_span("POST /matters"),
        world.database.firm(world.firm_a) as connection,
    ):
        created = create_matter(
            connection, firm_id=world.firm_a, title=TITLE, environment=ENVIRONMENT
        )
    assert world.one("SELECT title FROM matters WHERE id = %s", created.matter_id) == TITLE
    body, found = stored_event(world, created)
    parsed = parse_matter_created(body)
    assert (parsed.event_id, parsed.matter_id) == (created.event_id, created.matter_id)
    assert (parsed.firm_id, parsed.environment) == (world.firm_a, ENVIRONMENT)
    assert parsed.traceparent
    assert (parsed.traceparent, parsed.tracestate) == (found["traceparent"], found["tracestate"])
    assert found["event_type"] == "matter.created"
    assert "Sharma" not in str(found)  # ids and trace only, never matter content


def test_a_matter_and_its_event_roll_back_together(world: World) -> None:
    with rolled_back(world, world.firm_a) as connection:
        create_matter(connection, firm_id=world.firm_a, title=TITLE, environment=ENVIRONMENT)
    assert world.one("SELECT count(*) FROM matters") == 0
    assert world.pending(EventType.MATTER_CREATED) == 0


def test_a_domain_event_carries_the_live_trace_and_not_one_it_came_with(world: World) -> None:
    event = envelope(world.firm_a, world.matter(world.firm_a))
    assert event.traceparent
    with world.database.firm(world.firm_a) as connection:
        assert emit_domain_event(connection, event) == event.event_id
    body, found = stored_event(world, CreatedMatter(event.matter_id, event.event_id))
    assert parse_matter_created(body).traceparent is None
    assert found["traceparent"] is None


def test_producers_work_with_a_sqlalchemy_session_too(world: World) -> None:
    document = world.document(world.firm_a)
    with Session(world.database._engine) as session, session.begin():
        enter_firm(session.connection(), world.firm_a)
        created = create_matter(session, firm_id=world.firm_a, title=TITLE, environment=ENVIRONMENT)
        event = request_registration(session, firm_id=world.firm_a, document_id=document)
        assert request_registration(session, firm_id=world.firm_a, document_id=document) is None
        assert session.scalar(text("SELECT count(*) FROM ops.domain_event_outbox")) == 1
    assert stored_event(world, created)
    assert [baton["event_id"] for baton in batons(world, document)] == [str(event)]
