"""The checks refresh by themselves: a real daemon, nothing else running, and no run at all."""

import json
import re
from pathlib import Path

import pytest
from dagster import DagsterInstance
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from pramaan_pipelines.orchestration.checks import check_key
from pramaan_pipelines.outbox.lanes import DOMAIN_EVENT
from pramaan_pipelines.watch.checks import CHECKS, PARKED, Check
from pramaan_pipelines_tests.e2e.live import Live
from pramaan_pipelines_tests.growth.__main__ import loose
from pramaan_pipelines_tests.outbox.bench import put

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(600)]

A_LOOK_OR_TWO = 150.0
CHECK = PARKED[DOMAIN_EVENT]
PASSED = AssetCheckExecutionRecordStatus.SUCCEEDED
RED = AssetCheckExecutionRecordStatus.FAILED


def shown(instance: DagsterInstance, check: Check) -> AssetCheckExecutionRecordStatus | None:
    """Return how `check` stands in the UI; None where it was never evaluated."""
    key = check_key(check)
    summary = instance.event_log_storage.get_asset_check_summary_records([key])[key]
    last = summary.last_check_execution_record
    return last.status if last else None


def told(instance: DagsterInstance) -> int:
    """Count the events that looks have told; what Dagster writes by itself is not of a look."""
    events = [json.loads(text)["dagster_event"]["event_type_value"] for text in loose(instance)]
    return sum(kind in {"ASSET_CHECK_EVALUATION", "ASSET_OBSERVATION"} for kind in events)


def looks(instance: DagsterInstance) -> int:
    """Count the ticks of road_watch_sensor that ended."""
    (state,) = [s for s in instance.all_instigator_state() if s.name == "road_watch_sensor"]
    ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id)
    return sum(tick.end_timestamp is not None for tick in ticks)


def of_the_page(repository: Path) -> int:
    """Return what docs/growth.md says of a look that tells everything, in events."""
    page = (repository / "docs" / "growth.md").read_text()
    found = re.search(r"a look of `road_watch_sensor` that tells everything \| (\d+) ", page)
    assert found
    return int(found[1])


def test_a_parked_row_turns_its_check_red_and_mending_it_green_without_a_run(
    live: Live, repository: Path
) -> None:
    """And each look writes what docs/growth.md says: all at first, then the one that changed."""
    with live.daemon(), live.instance() as instance:
        live.wait_until(lambda: all(shown(instance, check) for check in CHECKS), A_LOOK_OR_TWO)
        assert {shown(instance, check) for check in CHECKS} == {PASSED}
        # The daemon reports a look's events one by one.
        live.wait_until(lambda: told(instance) >= of_the_page(repository), A_LOOK_OR_TWO)
        begun = looks(instance)

        (event,) = put(live.world, DOMAIN_EVENT)
        live.world.god.execute(
            "UPDATE ops.domain_event_outbox SET parked_at = now(), parked_reason = 'too large'"
        )
        live.wait_until(lambda: shown(instance, CHECK) is RED, A_LOOK_OR_TWO)
        record = instance.event_log_storage.get_asset_check_summary_records([check_key(CHECK)])
        said = str(record[check_key(CHECK)].last_check_execution_record)
        assert event in said
        assert "redrive_parked_rows_job" in said

        live.world.god.execute(
            "UPDATE ops.domain_event_outbox SET parked_at = NULL, dispatched_at = now()"
        )
        live.wait_until(lambda: shown(instance, CHECK) is PASSED, A_LOOK_OR_TWO)
        assert told(instance) == of_the_page(repository) + 2
        assert looks(instance) >= begun + 2
        assert instance.get_runs_count() == 0
