"""Looking up the runs of a Dagster instance by what they carried.

Promises: reads only.
Never: is part of the road; it serves the demo and the tests.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.framer import framer_trigger_job

FINISHED: Final = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]


@dataclass(frozen=True)
class FoundRun:
    """A framer run: what became of which message."""

    run_id: str
    status: str
    message_id: str
    event_id: str | None
    outcome: str | None
    reason: str | None
    trace_id: str | None


@dataclass(frozen=True)
class FoundRelay:
    """A relay run that ended: which lane, and from when to when, in epoch seconds."""

    run_id: str
    lane: str
    began: float
    ended: float


@contextmanager
def instance_at(home: Path) -> Iterator[DagsterInstance]:
    """Open the instance of a DAGSTER_HOME."""
    with DagsterInstance.from_config(str(home)) as instance:
        yield instance


def framer_runs(instance: DagsterInstance) -> list[FoundRun]:
    """Return every framer run, newest first."""
    return [
        FoundRun(
            run.run_id,
            run.status.value,
            run.tags[names.TAG_MESSAGE],
            run.tags.get(names.TAG_EVENT),
            run.tags.get(names.TAG_OUTCOME),
            run.tags.get(names.TAG_REASON),
            run.tags.get(names.TAG_TRACE),
        )
        for run in instance.get_runs(RunsFilter(job_name=framer_trigger_job.name))
        if names.TAG_MESSAGE in run.tags
    ]


def relay_runs(instance: DagsterInstance) -> list[FoundRelay]:
    """Return every relay run that has ended, newest first."""
    records = instance.get_run_records(RunsFilter(statuses=FINISHED))
    return [
        FoundRelay(
            record.dagster_run.run_id,
            record.dagster_run.tags[names.TAG_LANE],
            record.start_time,
            record.end_time,
        )
        for record in records
        if names.TAG_LANE in record.dagster_run.tags and record.start_time and record.end_time
    ]
