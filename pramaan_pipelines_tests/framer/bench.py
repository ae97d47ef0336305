"""Claims to make, and what to arrange around them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import psycopg
from sqlalchemy import Connection, text

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines_tests.support.world import TRACEPARENT, TRACESTATE, World

LEASE_SECONDS = 900
TRACE = TraceContext(TRACEPARENT, TRACESTATE)


def asked(world: World, matter: UUID | None = None, firm: UUID | None = None) -> FrameRequest:
    """Return a new event's request, of firm A and for a matter of its own unless told."""
    firm = firm or world.firm_a
    return FrameRequest(firm, matter or world.matter(firm), uuid4())


def again(request: FrameRequest) -> FrameRequest:
    """Return another event's request for the same matter."""
    return FrameRequest(request.firm_id, request.matter_id, uuid4())


def won(claims: FrameJobClaims, request: FrameRequest) -> Claim:
    """Claim, and fail where the claim is lost."""
    claim = claims.claim(request, TRACE)
    assert isinstance(claim, Claim)
    return claim


def job(world: World, request: FrameRequest) -> dict[str, Any]:
    """Return the matter's frame job, which must be there."""
    found = world.job(request.matter_id)
    assert found is not None
    return found


def statuses(world: World, request: FrameRequest) -> list[str]:
    """Return the statuses of the matter's agent runs, oldest first."""
    return [run["status"] for run in world.runs(request.matter_id)]


def age(world: World, request: FrameRequest, seconds: float = LEASE_SECONDS + 1) -> None:
    """Let the claim be `seconds` old on the database's clock."""
    world.god.execute(
        "UPDATE ops.matter_frame_jobs SET claimed_at = now() - make_interval(secs => %s) "
        "WHERE matter_id = %s",
        [seconds, request.matter_id],
    )


@contextmanager
def holding(world: World, request: FrameRequest) -> Iterator[Connection]:
    """Hold the lock of the matter's job row in another connection."""
    with world.database.staff() as connection:
        connection.execute(
            text("SELECT 1 FROM ops.matter_frame_jobs WHERE matter_id = :matter FOR UPDATE"),
            {"matter": request.matter_id},
        )
        yield connection


def remove_matter(god: psycopg.Connection[tuple[Any, ...]], matter: UUID) -> None:
    god.execute("DELETE FROM matters WHERE id = %s", [matter])
