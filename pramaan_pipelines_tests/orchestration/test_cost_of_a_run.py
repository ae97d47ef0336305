"""What a run writes into Dagster's own storage: its events are most of what a run costs."""

from uuid import uuid4

import pytest
from dagster import DagsterInstance

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.outbox.bench import put
from pramaan_pipelines_tests.support.world import World, envelope

FRAMER_EVENTS = 75
RELAY_EVENTS = 15
"""A new event is a row, and on Postgres a connection, in each of thousands of runs a day: think
whether somebody will read it."""


def test_a_framer_run_writes_a_bounded_number_of_events(rail: Rail) -> None:
    firm = rail.world.firm_a
    body = envelope(firm, rail.world.matter(firm), event_id=uuid4()).model_dump_json()
    run = rail.deliver(body)
    assert run.outcome == ("started", "release")
    written = rail.instance.all_logs(run.result.run_id)
    assert len(written) <= FRAMER_EVENTS, [str(log.dagster_event_type) for log in written]


@pytest.mark.usefixtures("configured")
@pytest.mark.parametrize("rows", [1, 300])
def test_a_relay_run_writes_as_many_events_for_many_rows_as_for_one(
    world: World, instance: DagsterInstance, rows: int
) -> None:
    put(world, DOCUMENT_INGEST, rows)
    job = defs.resolve_job_def(f"{DOCUMENT_INGEST.name}_job")
    result = job.execute_in_process(instance=instance)
    assert world.pending(str(DOCUMENT_INGEST.event_type)) == 0
    written = instance.all_logs(result.run_id)
    assert len(written) <= RELAY_EVENTS, [str(log.dagster_event_type) for log in written]
