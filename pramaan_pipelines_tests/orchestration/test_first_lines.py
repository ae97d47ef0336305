"""A failed run's first line: which gate or op, which reason, what to do. One test a kind."""

import ast
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from dagster import DagsterEventType, DagsterInstance, ExecuteInProcessResult

from pramaan_pipelines import orchestration
from pramaan_pipelines.definitions import defs
from pramaan_pipelines.orchestration import names, purge
from pramaan_pipelines.orchestration.framer import run_request
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.support.first_line import first_line
from pramaan_pipelines_tests.support.world import body

SECRET = "hunter2-do-not-show"
NOWHERE = "http://127.0.0.1:1"
Config = Mapping[str, Any]

AWAY = {
    "PRAMAAN_ENVIRONMENT": "test",
    "DATABASE_URL": f"postgresql://nobody:{SECRET}@127.0.0.1:1/none",
    "MAINTENANCE_DATABASE_URL": f"postgresql://nobody:{SECRET}@127.0.0.1:1/none",
    "DOCUMENT_INGESTION_QUEUE_URL": f"{NOWHERE}/000000000000/ingestion",
    "DOCUMENT_REGISTRATION_QUEUE_URL": f"{NOWHERE}/000000000000/registration",
    "FRAMER_EVENTS_QUEUE_URL": f"{NOWHERE}/000000000000/framer",
    "EVENT_BUS_NAME": "away",
    "AWS_ENDPOINT_URL": NOWHERE,
}
OWED = {"owed": {"config": {"firm_id": str(uuid4()), "matter_id": str(uuid4())}}}
POSTGRES = ("Postgres at 127.0.0.1:1 gives no connection", "Start it")
NOTHING_SENT = "Nothing was sent: the rows stay as they are, and the next run tries again."
SAME_DAY = ("Nothing was sent", "Launch this day again (the same partition, the same tags)")
QUEUE = ("Could not connect to the endpoint URL", "Check its URL, the region and the credentials")


def op(name: str, **config: object) -> Config:
    return {name: {"config": config}}


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is set, and nothing answers."""
    for name, value in AWAY.items():
        monkeypatch.setenv(name, value)


class Seen:
    """What an operator sees of a failed run, from the top."""

    def __init__(self, instance: DagsterInstance, run_id: str) -> None:
        events = [
            (log, log.dagster_event)
            for log in instance.all_logs(run_id)
            if int(log.level) >= 40 and log.dagster_event is not None
        ]
        assert events, "the run is green"
        self.first = self._told(events[0][1])
        (ended,) = [
            event
            for _, event in events
            if event and event.event_type is DagsterEventType.RUN_FAILURE
        ]
        self.run_failure = self._told(ended)
        run = instance.get_run_by_id(run_id)
        assert run is not None
        self.tags = run.tags

    @staticmethod
    def _told(event: Any) -> str:
        """The event's message, and the first lines of its error and the causes behind it."""
        data = event.event_specific_data
        error = getattr(data, "error", None) or getattr(data, "error_info", None)
        lines = [str(event.message)]
        while error is not None:
            lines.append(error.message.strip().splitlines()[0])
            error = error.cause
        return "\n".join(lines)


def ended(instance: DagsterInstance, job: str, ops: Config | None = None) -> ExecuteInProcessResult:
    definition = defs.resolve_job_def(job)
    day = str(datetime.now(UTC).date()) if definition.partitions_def else None
    result = definition.execute_in_process(
        instance=instance,
        raise_on_error=False,
        run_config={"ops": dict(ops or {})},
        partition_key=day,
    )
    assert not result.success
    return result


def failed(instance: DagsterInstance, job: str, ops: Config | None = None) -> Seen:
    return Seen(instance, ended(instance, job, ops).run_id)


ALL_AWAY: Final[Mapping[str, tuple[Config, str, tuple[str, ...]]]] = {
    "document_ingest_relay_job": ({}, "drain_document_ingest_relay", (*QUEUE, NOTHING_SENT)),
    "document_registration_relay_job": ({}, "drain_document_registration_relay", QUEUE),
    "domain_event_relay_job": ({}, "drain_domain_event_relay", ("away", NOTHING_SENT)),
    "document_ingest_replay_job": ({}, "replay_document_ingest", (*QUEUE, *SAME_DAY)),
    "document_registration_replay_job": (
        op("replay_document_registration", dry_run=True),
        "replay_document_registration",
        (*POSTGRES, "Nothing was changed"),
    ),
    "domain_event_replay_job": ({}, "replay_domain_event", ("away", *SAME_DAY)),
    "stale_frame_job_sweep_job": ({}, "sweep_stale_frame_jobs", POSTGRES),
    "redrive_parked_rows_job": (
        op("redrive_parked_rows", lane="domain_event_relay"),
        "redrive_parked_rows",
        POSTGRES,
    ),
    "redrive_dead_letters_job": ({}, "redrive_dead_letters", QUEUE),
    "rebuild_frame_job": (
        op("request_rebuild", firm_id=str(uuid4()), matter_id=str(uuid4())),
        "request_rebuild",
        POSTGRES,
    ),
    "prune_outboxes_job": ({}, "prune_outboxes", POSTGRES),
    "frame_healing_job": (OWED, "coherence", POSTGRES),
}
TOLD_OTHERWISE: Final = {
    "framer_trigger_job",  # below, at each of its gates
    "purge_dagster_storage_job",  # below: it needs Dagster's own storage and nothing else
    "check_road_job",  # never red: what could not be evaluated is a check that says so
}


def test_no_job_is_left_out_here() -> None:
    jobs = {name for name in defs.get_repository_def().job_names if not name.startswith("__")}
    assert {*ALL_AWAY} | TOLD_OTHERWISE == jobs


def test_every_failure_is_made_where_its_shape_is_kept() -> None:
    """A bare `Failure(...)` would name no op, or nothing to do."""
    made = {
        path.name
        for path in Path(orchestration.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Failure"
    }
    assert made == {"failing.py"}


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("job", ALL_AWAY)
def test_what_is_away_is_named_with_what_to_do(instance: DagsterInstance, job: str) -> None:
    ops, where, reason_and_remedy = ALL_AWAY[job]
    result = ended(instance, job, ops)
    said = first_line(instance, result)
    seen = Seen(instance, result.run_id)
    for told in (seen.first, seen.run_failure):
        assert told.splitlines()[1].endswith(said)
        assert SECRET not in told
    assert said.startswith(f"failed at {where}: ")
    for part in reason_and_remedy:
        assert part in said


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("job", ["document_ingest_relay_job", "document_ingest_replay_job"])
def test_what_was_under_way_when_postgres_went_is_told(
    instance: DagsterInstance, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pramaan_pipelines.messaging.sqs.QueueClient.verify", lambda _: None)
    said = first_line(instance, ended(instance, job))
    assert said.startswith(f"failed at {ALL_AWAY[job][1]}: DatabaseUnavailableError: Postgres at ")
    assert "The batch under way was rolled back" in said


@pytest.mark.parametrize(
    "job", ["document_ingest_relay_job", "frame_healing_job", "check_road_job"]
)
def test_a_missing_setting_is_named_with_what_to_do_before_any_op(
    instance: DagsterInstance, job: str
) -> None:
    seen = failed(instance, job, OWED if job == "frame_healing_job" else {})
    for told in (seen.first, seen.run_failure):
        assert "DATABASE_URL is not set." in told
        assert "Run `pramaan up`" in told
    assert seen.first.splitlines()[0].startswith("Initialization of resources [")


@pytest.mark.usefixtures("away")
def test_a_fault_of_dagsters_own_storage_is_told_by_the_purge(
    instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(purge, "purge", breaks)
    seen = failed(instance, "purge_dagster_storage_job")
    assert "failed at purge_dagster_storage: OSError: disk full. What was deleted is gone" in (
        seen.first
    )
    assert seen.tags[names.TAG_REASON] == "OSError"


OUT_OF_BOUNDS: Final = {
    "prune_outboxes_job": op("prune_outboxes", older_than_days=10**9),
    "purge_dagster_storage_job": op("purge_dagster_storage", failed_days=10**9),
    "redrive_dead_letters_job": op("redrive_dead_letters", limit=0),
    "domain_event_relay_job": op("drain_domain_event_relay", budget_seconds=10**9),
    "domain_event_replay_job": op("replay_domain_event", batch_rows=10**9),
}


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize("job", OUT_OF_BOUNDS)
def test_a_field_out_of_its_bounds_is_named_with_the_bound(
    instance: DagsterInstance, job: str
) -> None:
    (given,) = OUT_OF_BOUNDS[job].values()
    (field,) = given["config"]
    line = failed(instance, job, OUT_OF_BOUNDS[job]).first
    assert f"failed at its config: {field}: Input should be " in line
    assert "Nothing was done" in line


def broken(rail: Rail, change: Callable[[dict[str, Any]], None]) -> Seen:
    """Deliver an envelope that `change` made wrong."""
    fields: dict[str, Any] = {}
    change(fields)
    firm = rail.world.firm_a
    rail.send(body(firm, rail.world.matter(firm), **fields))
    request = run_request(rail.receive())
    result = defs.resolve_job_def("framer_trigger_job").execute_in_process(
        instance=rail.instance,
        raise_on_error=False,
        run_config=request.run_config,
        tags=request.tags,
    )
    return Seen(rail.instance, result.run_id)


@pytest.mark.parametrize(
    ("gate", "reason", "fields"),
    [
        ("parse", "malformed", {"schema_version": "later"}),
        ("environment", "wrong_environment", {"environment": "prod"}),
        ("coherence", "subject_not_visible", {"firm_id": str(uuid4())}),
    ],
)
def test_a_refusal_names_its_gate_its_reason_and_what_to_do(
    rail: Rail, gate: str, reason: str, fields: dict[str, Any]
) -> None:
    seen = broken(rail, lambda given: given.update(fields))
    for told in (seen.first, seen.run_failure):
        first_line = told.splitlines()[1]
        assert f"refused at {gate}: envelope refused ({reason})" in first_line
        assert "mend the producer, then send it again" in first_line
    assert (seen.tags[names.TAG_GATE], seen.tags[names.TAG_REASON]) == (gate, reason)


@pytest.mark.usefixtures("no_pause")
def test_an_agent_that_is_out_is_told_at_its_gate(rail: Rail) -> None:
    rail.agent.failures = 99
    seen = broken(rail, lambda _: None)
    for told in (seen.first, seen.run_failure):
        assert "failed at invoke: ConnectionError: the runtime is out." in told.splitlines()[1]
        assert "comes again after a pause" in told.splitlines()[1]
