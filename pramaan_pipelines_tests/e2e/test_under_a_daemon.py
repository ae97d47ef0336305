"""What a migration and a restarted database do to a daemon that goes on: nothing that fails."""

import pytest
from dagster import DagsterRunStatus, RunsFilter

from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST
from pramaan_pipelines_tests.e2e.live import Live
from pramaan_pipelines_tests.outbox.bench import put
from pramaan_pipelines_tests.support.world import body

pytestmark = [pytest.mark.e2e, pytest.mark.long]

EVERY_CONNECTION_OF_OURS = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE usename = 'pramaan_app' AND datname = current_database()
"""


def _one_of_each(live: Live) -> None:
    firm = live.world.firm_a
    matter = live.world.matter(firm)
    put(live.world, DOCUMENT_INGEST, 3)
    live.send(body(firm, matter))
    live.wait_until(lambda: live.world.pending(str(DOCUMENT_INGEST.event_type)) == 0)
    live.wait_until(lambda: [run["status"] for run in live.world.runs(matter)] == ["succeeded"])


def _calm(live: Live) -> bool:
    with live.instance() as instance:
        return instance.get_runs_count() == instance.get_runs_count(
            RunsFilter(statuses=[DagsterRunStatus.SUCCESS])
        )


def test_columns_added_and_connections_cut_are_survived_by_a_running_daemon(live: Live) -> None:
    """Sensors and schedules keep a pool; a plan of theirs and a connection of theirs go stale."""
    live.variables["PRAMAAN_WAKE_UP"] = "true"
    god = live.world.god
    with live.daemon():
        _one_of_each(live)
        for table in ("ops.document_ingest_outbox", "ops.domain_event_outbox"):
            god.execute(f"ALTER TABLE {table} ADD COLUMN of_the_next_release text")
        _one_of_each(live)
        live.wait_until(lambda: _calm(live))
        cut = god.execute(EVERY_CONNECTION_OF_OURS).fetchone()
        assert cut is not None
        assert cut[0] > 0
        _one_of_each(live)
        live.wait_until(lambda: _calm(live))
        with live.instance() as instance:
            failed = [
                tick
                for state in instance.all_instigator_state()
                for tick in instance.get_ticks(
                    state.instigator_origin_id, state.selector_id, limit=200
                )
                if tick.is_failure
            ]
    assert failed == []
