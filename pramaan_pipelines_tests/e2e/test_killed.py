"""A message outlives whoever was working on it."""

import os
import signal

import pytest

from pramaan_pipelines_tests.e2e.live import Live, kill_everything
from pramaan_pipelines_tests.support.proxy import HoldingProxy
from pramaan_pipelines_tests.support.world import envelope

pytestmark = pytest.mark.e2e


def test_message_comes_again_when_the_sensor_tick_is_killed_after_receiving(
    live: Live, proxy: HoldingProxy
) -> None:
    matter = live.world.matter(live.world.firm_a)
    live.send(envelope(live.world.firm_a, matter).model_dump_json())

    with proxy.holding("ReceiveMessage", forward_first=True) as hold, live.daemon() as daemon:
        live.wait_until(hold.reached.is_set)
        kill_everything(daemon)
    depth = live.queue.depth()
    assert (depth.visible, depth.in_flight) == (0, 1), "the message is received and not lost"
    assert live.runs() == []

    with live.daemon():
        live.wait_until(lambda: live.ended("started"))
        live.wait_until(lambda: live.queue.depth().total == 0)
    assert [run["status"] for run in live.world.runs(matter)] == ["succeeded"]
    assert live.queue.dead_letter_depth().total == 0


def test_message_comes_again_when_the_worker_is_killed_before_its_last_op(
    live: Live, proxy: HoldingProxy
) -> None:
    matter = live.world.matter(live.world.firm_a)
    live.send(envelope(live.world.firm_a, matter).model_dump_json())

    with live.daemon():
        with proxy.holding("DeleteMessage", forward_first=False) as hold:
            live.wait_until(hold.reached.is_set)
            (run,) = live.runs()
            os.kill(live.worker_of(run.run_id), signal.SIGKILL)
            live.wait_until(lambda: live.runs()[0].status == "FAILURE")
        assert live.queue.depth().in_flight == 1, "nobody deleted it"

        live.wait_until(lambda: live.ended("duplicate"))
        live.wait_until(lambda: live.queue.depth().total == 0)
    assert [run["status"] for run in live.world.runs(matter)] == ["succeeded"]
    job = live.world.job(matter)
    assert job is not None
    assert (job["run_status"], job["claimed_generation"]) == ("idle", 1)
    assert live.queue.dead_letter_depth().total == 0
