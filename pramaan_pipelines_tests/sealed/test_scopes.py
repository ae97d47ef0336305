"""Asked in another scope than its own, the core raises: no row would be no answer."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import ProgrammingError

from pramaan_pipelines.errors import ScopeError
from pramaan_pipelines.framer import gates
from pramaan_pipelines.outbox.backlog import (
    any_due,
    backlog,
    first_parked,
    oldest_pending,
    unclaimed_events,
)
from pramaan_pipelines.outbox.lanes import DOMAIN_EVENT
from pramaan_pipelines.store.database import transaction
from pramaan_pipelines_tests.support.world import World

LANE_WORK: dict[str, Callable[[Connection], object]] = {
    "any_due": lambda connection: any_due(connection, DOMAIN_EVENT),
    "backlog": lambda connection: backlog(connection, DOMAIN_EVENT),
    "oldest_pending": lambda connection: oldest_pending(connection, DOMAIN_EVENT, 1),
    "first_parked": lambda connection: first_parked(connection, DOMAIN_EVENT, 1),
    "unclaimed_events": unclaimed_events,
}


@pytest.mark.parametrize("name", LANE_WORK)
def test_lane_work_outside_the_staff_scope_is_an_error(world: World, name: str) -> None:
    """Though nothing waits: a firm would see its own rows, and nobody none."""
    with world.database.staff() as connection:
        LANE_WORK[name](connection)
    for opened in (world.database.firm(world.firm_a), transaction(world.database._engine)):
        with pytest.raises(ScopeError, match="staff"), opened as connection:
            LANE_WORK[name](connection)


@pytest.mark.parametrize("gate", ["dedupe", "coherence", "consent"])
@pytest.mark.parametrize("scope", ["firm B", "staff", "none"])
def test_a_gate_asked_about_another_firm_than_its_transaction_s_is_an_error(
    world: World, gate: str, scope: str
) -> None:
    """Not "not handled", "not visible" or "no consent", each of which would be acted upon."""
    firm = world.firm_a

    def ask(connection: Connection) -> None:
        if gate == "dedupe":
            gates.is_handled(connection, firm_id=firm, event_id=uuid4())
        elif gate == "coherence":
            gates.check_subject(connection, firm_id=firm, matter_id=uuid4())
        else:
            gates.load_egress_consent(connection, firm_id=firm)

    # Also where there is no row to ask about, so that the policies may have nothing to object to.
    for table in ("matters", "agents.agent_run", "firm_inference_egress_consents"):
        world.god.execute(f"DELETE FROM {table}")  # noqa: S608
    opened = {
        "firm B": world.database.firm(world.firm_b),
        "staff": world.database.staff(),
        "none": transaction(world.database._engine),
    }[scope]
    refused = (ScopeError, ProgrammingError)
    with pytest.raises(refused, match=r"another firm|no firm is set"), opened as connection:
        ask(connection)
