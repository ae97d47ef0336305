"""The hosted instance comes up from the example's variables alone, on storage of its own."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from dagster import DagsterInstance
from dagster._core.errors import DagsterInvalidConfigError
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager
from dagster_aws.ecs import EcsRunLauncher
from dagster_aws.s3.compute_log_manager import S3ComputeLogManager
from dagster_postgres import PostgresRunStorage

from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.framer import MAX_FRAMER_RUNS
from pramaan_pipelines.orchestration.warm.launcher import WarmRunLauncher
from pramaan_pipelines.outbox.producers import insert_document_ingest_event
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.e2e.conftest import live, proxy
from pramaan_pipelines_tests.e2e.live import Live
from pramaan_pipelines_tests.hosted.files import read

__all__ = ["live", "proxy"]

VARIABLES = (
    "DAGSTER_DATABASE_URL",
    "DAGSTER_MAX_CONCURRENT_RUNS",
    "DAGSTER_COMPUTE_LOGS_BUCKET",
)


def comes_up(folder: str) -> None:
    with DagsterInstance.from_config(folder) as instance:
        assert instance.run_coordinator
        assert instance.compute_log_manager


@pytest.fixture
def as_the_example_says(
    example: dict[str, str],
    dagster_url: str,
    aws_environment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exactly the example's variables; only where its database is, is this test's."""
    del aws_environment
    for name, value in example.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DAGSTER_DATABASE_URL", dagster_url)


@pytest.mark.usefixtures("as_the_example_says")
def test_the_instance_of_one_host_comes_up_with_everything_an_operator_relies_on(
    home: Callable[[str], Path],
) -> None:
    with DagsterInstance.from_config(str(home("host"))) as instance:
        storage = instance._run_storage
        assert isinstance(storage, PostgresRunStorage)
        assert storage.get_runs_count() == 0  # its tables are there
        assert isinstance(instance.run_launcher, WarmRunLauncher)
        assert type(instance.compute_log_manager) is NoOpComputeLogManager
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_max_resume_run_attempts == 0
        assert instance.get_settings("run_monitoring")["free_slots_after_run_end_seconds"] > 0
        assert instance.run_retries_enabled
        assert not instance.run_retries_retry_on_asset_or_op_failure
        assert not instance.telemetry_enabled
        queue = instance.get_concurrency_config().run_queue_config
        assert queue is not None
        assert queue.max_concurrent_runs == 25
        limits = {(at["key"], str(at.get("value"))): at for at in queue.tag_concurrency_limits}
        assert limits[names.TAG_RAIL, names.RAIL_FRAMER]["limit"] == MAX_FRAMER_RUNS


def test_both_instance_files_say_the_same_of_queue_limits_and_retention() -> None:
    """One machine and several differ in their storage and launcher, never in their rules."""
    here, hosted = read("../dagster.yaml"), read("dagster.yaml")
    queues = [file["run_coordinator"]["config"] for file in (here, hosted)]
    assert queues[0]["tag_concurrency_limits"] == queues[1]["tag_concurrency_limits"]
    for section in ("retention", "sensors", "schedules", "telemetry", "nux"):
        assert here[section] == hosted[section], section


@pytest.mark.usefixtures("as_the_example_says")
@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_that_is_not_set_is_named(
    home: Callable[[str], Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(name)
    folder = str(home("host"))
    with pytest.raises(DagsterInvalidConfigError, match=name):
        comes_up(folder)


def test_every_variable_of_the_instance_files_is_in_the_example(
    repository: Path, example: dict[str, str]
) -> None:
    files = [repository / "deploy" / "dagster.yaml", *(repository / "deploy/launchers").iterdir()]
    read_there = {name for file in files for name in re.findall(r"env: (\w+)", file.read_text())}
    assert read_there == {name for name in example if name.startswith("DAGSTER_")}
    assert set(VARIABLES) < read_there


@pytest.mark.usefixtures("as_the_example_says")
def test_a_bucket_takes_the_output_of_run_processes_to_s3(
    home: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_COMPUTE_LOGS_BUCKET", "pramaan-dagster-logs")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with DagsterInstance.from_config(str(home("host"))) as instance:
        manager = instance.compute_log_manager
        assert isinstance(manager, S3ComputeLogManager)
        assert manager._s3_bucket == "pramaan-dagster-logs"
        # A run's worker rebuilds the instance from what this one hands on.
        with DagsterInstance.from_ref(instance.get_ref()) as there:
            assert isinstance(there.compute_log_manager, S3ComputeLogManager)


def test_dagsters_role_has_nothing_of_the_applications(
    dagster_url: str, database_name: str, server: EmbeddedPostgres
) -> None:
    beside = dagster_url.replace("/pramaan_dagster?", f"/{database_name}?")
    beside = re.sub(r"/pramaan_dagster$", f"/{database_name}", beside)
    with psycopg.connect(beside, autocommit=True) as connection:
        for statement in (
            "SELECT 1 FROM ops.document_ingest_outbox",
            "SELECT 1 FROM matters",
            "CREATE TABLE public.mine ()",
            "SET ROLE pramaan_app",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
    with (
        pytest.raises(psycopg.OperationalError, match="permission denied for database"),
        psycopg.connect(server.url("pramaan_app", "pramaan_dagster")),
    ):
        pass


@pytest.mark.usefixtures("as_the_example_says")
def test_a_launcher_of_ecs_is_made_from_its_file_and_the_task_definition_of_the_stack(
    home: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, ecs: str, example: dict[str, str]
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_ECS", ecs)
    with DagsterInstance.from_config(str(home("ecs"))) as instance:
        launcher = instance.run_launcher
        assert isinstance(launcher, EcsRunLauncher)
        assert launcher.task_definition is not None
        assert example["DAGSTER_RUN_TASK_DEFINITION"] in launcher.task_definition
        assert launcher.secrets_tags == []
        assert launcher.run_task_kwargs == {"launchType": "FARGATE"}


@pytest.mark.e2e
@pytest.mark.long
def test_a_daemon_on_the_hosted_instance_runs_a_relay(
    live: Live, home: Callable[[str], Path], dagster_url: str, provisioned: Settings
) -> None:
    shutil.copyfile(home("host") / "dagster.yaml", live.home / "dagster.yaml")
    hosted = {
        "DAGSTER_DATABASE_URL": dagster_url,
        "DAGSTER_MAX_CONCURRENT_RUNS": "4",
        "DAGSTER_COMPUTE_LOGS_BUCKET": "",
        "PRAMAAN_WAKE_UP": "true",
    }
    live.variables.update(hosted)
    document = live.world.document(live.world.firm_a)
    with live.world.database.firm(live.world.firm_a) as connection:
        insert_document_ingest_event(
            connection,
            firm_id=live.world.firm_a,
            document_id=document,
            event_type=EventType.DOCUMENT_INGEST_REQUESTED,
        )
    with live.daemon():
        live.wait_until(
            lambda: live.world.pending(EventType.DOCUMENT_INGEST_REQUESTED) == 0, seconds=150
        )

        def relayed() -> bool:
            with psycopg.connect(dagster_url) as there:
                found = there.execute(
                    "SELECT 1 FROM runs WHERE pipeline_name = 'document_ingest_relay_job' "
                    "AND status = 'SUCCESS'"
                )
                return found.fetchone() is not None

        live.wait_until(relayed)
    received = live.sqs.receive_message(
        QueueUrl=provisioned.require("document_ingestion_queue_url"), WaitTimeSeconds=5
    )
    (message,) = received["Messages"]
    assert str(document) in message["Body"]
