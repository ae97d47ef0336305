"""Postgres goes away in the middle of a claim: nothing of it stays, and the next one wins."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from sqlalchemy.exc import OperationalError

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines_tests.support.waiting import until_blocked
from pramaan_pipelines_tests.support.world import World

CUT = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def test_claim_whose_connection_is_cut_leaves_nothing_and_can_be_made_again(world: World) -> None:
    """The claim and its run row are one transaction: the server rolls both back (EB-16)."""
    matter = world.matter(world.firm_a)
    claims = FrameJobClaims(world.database, lease_seconds=900)
    request = FrameRequest(world.firm_a, matter, uuid4())

    with ThreadPoolExecutor(1) as pool, world.god.transaction():
        # The claim has its job row and waits for the run row's table: in its very middle.
        world.god.execute("LOCK TABLE agents.agent_run IN SHARE MODE")
        claiming = pool.submit(claims.claim, request, TraceContext())
        until_blocked(world)
        world.god.execute(CUT)
        with pytest.raises(OperationalError):
            claiming.result(timeout=30)
    assert world.job(matter) is None
    assert world.runs(matter) == []

    assert isinstance(claims.claim(request, TraceContext()), Claim)
    assert len(world.runs(matter)) == 1
