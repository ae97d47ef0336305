"""A frame whose worker died is built without a person, by the daemon's own sweep and sensor."""

from uuid import uuid4

import pytest

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines_tests.e2e.live import Live

pytestmark = pytest.mark.e2e
LEASE_SECONDS = 5


def test_frame_of_a_worker_that_died_after_its_claim_is_built_by_sweep_and_healing(
    live: Live,
) -> None:
    """Within the lease plus two minutes: a minute's sweep at the most, then the healing sensor."""
    firm, matter, event = live.world.firm_a, live.world.matter(live.world.firm_a), uuid4()
    claims = FrameJobClaims(live.world.database, lease_seconds=LEASE_SECONDS)
    # What a worker leaves that is killed between its claim's commit and the invoke.
    dead = claims.claim(FrameRequest(firm, matter, event), TraceContext())
    assert isinstance(dead, Claim)

    live.variables["MATTER_FRAME_JOB_LEASE_SECONDS"] = str(LEASE_SECONDS)
    with live.daemon():
        live.wait_until(
            lambda: [run["status"] for run in live.world.runs(matter)] == ["failed", "succeeded"],
            seconds=LEASE_SECONDS + 120,
        )
        live.wait_until(lambda: (live.world.job(matter) or {}).get("run_status") == "idle")
    of_event, healed = live.world.runs(matter)
    assert of_event["id"] == str(dead.agent_run_id)
    assert of_event["trigger_event_id"] == str(event)
    assert (healed["trigger_event_id"], healed["claimed_generation"]) == (None, 2)
    assert not claims.release(dead), "the dead worker's late write changes nothing"
