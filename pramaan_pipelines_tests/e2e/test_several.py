"""Two daemons by mistake, of one instance or of two: nothing is framed twice, nothing is lost."""

import json
import shutil
from contextlib import ExitStack
from dataclasses import replace

import pytest

from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST, DOCUMENT_REGISTRATION
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.e2e.live import Live
from pramaan_pipelines_tests.outbox.bench import put, received
from pramaan_pipelines_tests.support.world import body

pytestmark = [pytest.mark.e2e, pytest.mark.long]

MATTERS = 6
ROWS = 40


def _beats(live: Live) -> bool:
    with live.instance() as instance:
        return bool(instance.get_daemon_heartbeats())


def _told(live: Live, instances: int) -> bool:
    """Whether Dagster has warned of a second daemon, where there is one on the instance."""
    return instances == 2 or "daemon is still sending heartbeats" in live.log()


@pytest.mark.parametrize("instances", [1, 2])
def test_two_daemons_frame_each_matter_once_and_send_each_row(
    live: Live, provisioned: Settings, instances: int
) -> None:
    other = live
    if instances == 2:
        other = replace(live, home=live.home.with_name("other"))
        other.home.mkdir()
        shutil.copyfile(live.home / "dagster.yaml", other.home / "dagster.yaml")
    firm = live.world.firm_a
    with ExitStack() as running:
        first = running.enter_context(live.daemon())
        # Two that make one SQLite storage at once would be another mistake.
        live.wait_until(lambda: _beats(live))
        second = running.enter_context(other.daemon())
        live.wait_until(lambda: _beats(other) and _told(live, instances))
        matters = [live.world.matter(firm) for _ in range(MATTERS)]
        for matter in matters:
            live.send(body(firm, matter))
        lanes = (DOCUMENT_INGEST, DOCUMENT_REGISTRATION)
        events = {lane: set(put(live.world, lane, ROWS)) for lane in lanes}
        live.wait_until(
            lambda: (
                all(live.world.pending(str(lane.event_type)) == 0 for lane in lanes)
                and all(
                    [run["status"] for run in live.world.runs(matter)] == ["succeeded"]
                    for matter in matters
                )
                and live.queue.depth().total == 0
            ),
            seconds=150,
        )
        assert (first.poll(), second.poll()) == (None, None), "both were at work"
    for matter in matters:
        (run,) = live.world.runs(matter)
        job = live.world.job(matter)
        assert job is not None
        assert (job["run_status"], job["claimed_generation"]) == ("idle", 1)
        assert run["claimed_generation"] == 1
    queues = {
        DOCUMENT_INGEST: provisioned.document_ingestion_queue_url,
        DOCUMENT_REGISTRATION: provisioned.document_registration_queue_url,
    }
    for lane, url in queues.items():
        messages = received(provisioned, url, ROWS)
        found = [json.loads(message["Body"])["event_id"] for message in messages]
        assert sorted(found) == sorted(events[lane]), "each once: a row is locked while it is sent"
    assert live.queue.dead_letter_depth().total == 0
