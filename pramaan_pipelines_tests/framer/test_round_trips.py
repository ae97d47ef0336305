"""What a claim asks of the database: each gate inside it once, in one transaction."""

from uuid import uuid4

import pytest

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.support.trips import round_trips
from pramaan_pipelines_tests.support.world import World

A_CLAIM = 8
"""Is the connection alive, BEGIN with the scope, the upsert, visibility, consent, the superseded
run, the new run, COMMIT. The lock is held from the third on."""


def test_a_claim_and_its_release_are_few_round_trips(
    world: World, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.ping()
    claims = FrameJobClaims(database, lease_seconds=60)
    request = FrameRequest(world.firm_a, world.matter(world.firm_a), uuid4())
    with round_trips(monkeypatch) as trips:
        claim = claims.claim(request, TraceContext())
    assert isinstance(claim, Claim)
    assert trips.number <= A_CLAIM
    with round_trips(monkeypatch) as trips:
        assert claims.release(claim)
    assert trips.number <= A_CLAIM - 3
