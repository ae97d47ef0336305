"""A failed run's first line: which gate or op, which reason, what to do. One test a kind."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import pytest
from dagster import DagsterEventType, DagsterInstance

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.orchestration import names, purge
from pramaan_pipelines.orchestration.framer import run_request
from pramaan_pipelines_tests.orchestration.bench import Rail
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


def failed(instance: DagsterInstance, job: str, ops: Config | None = None) -> Seen:
    result = defs.resolve_job_def(job).execute_in_process(
        instance=instance, raise_on_error=False, run_config={"ops": dict(ops or {})}
    )
    assert not result.success
    return Seen(instance, result.run_id)


@pytest.mark.usefixtures("away")
@pytest.mark.parametrize(
    ("job", "ops", "where", "reason_and_remedy"),
    [
        ("document_ingest_relay_job", {}, "document_ingest_relay: nothing was sent", QUEUE),
        ("document_registration_relay_job", {}, "document_registration_relay", QUEUE),
        ("domain_event_relay_job", {}, "domain_event_relay: nothing was sent", ("away",)),
        ("stale_frame_job_sweep_job", {}, "failed at sweep_stale_frame_jobs", POSTGRES),
        (
            "redrive_parked_rows_job",
            op("redrive_parked_rows", lane="domain_event_relay"),
            "failed at redrive_parked_rows",
            POSTGRES,
        ),
        ("redrive_dead_letters_job", {}, "failed at redrive_dead_letters", QUEUE),
        (
            "rebuild_frame_job",
            op("request_rebuild", firm_id=str(uuid4()), matter_id=str(uuid4())),
            "failed at request_rebuild",
            POSTGRES,
        ),
        ("prune_outboxes_job", {}, "failed at prune_outboxes", POSTGRES),
        ("frame_healing_job", OWED, "failed at coherence", POSTGRES),
    ],
    ids=lambda value: value if isinstance(value, str) and value.endswith("_job") else "",
)
def test_what_is_away_is_named_with_what_to_do(
    instance: DagsterInstance,
    job: str,
    ops: Config,
    where: str,
    reason_and_remedy: tuple[str, ...],
) -> None:
    seen = failed(instance, job, ops)
    for told in (seen.first, seen.run_failure):
        first_line = told.splitlines()[1]
        assert where in first_line
        for part in reason_and_remedy:
            assert part in first_line
        assert SECRET not in told
    assert names.TAG_REASON in seen.tags


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
