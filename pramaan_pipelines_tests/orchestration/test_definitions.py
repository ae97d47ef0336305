"""What Dagster loads: frozen names, everything RUNNING, nothing opened at import."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from dagster import (
    AssetKey,
    DefaultScheduleStatus,
    DefaultSensorStatus,
    JobDefinition,
    RepositoryDefinition,
)

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.orchestration.road import road
from pramaan_pipelines.outbox.lanes import LANES
from pramaan_pipelines.settings import REQUIRED, Settings

JOBS = {
    "document_ingest_relay_job",
    "document_registration_relay_job",
    "domain_event_relay_job",
    "document_ingest_replay_job",
    "document_registration_replay_job",
    "domain_event_replay_job",
    "framer_trigger_job",
    "frame_healing_job",
    "redrive_parked_rows_job",
    "redrive_dead_letters_job",
    "rebuild_frame_job",
    "prune_outboxes_job",
    "stale_frame_job_sweep_job",
    "check_road_job",
    "purge_dagster_storage_job",
}
SCHEDULES = {
    "document_ingest_relay_schedule": "document_ingest_relay_job",
    "document_registration_relay_schedule": "document_registration_relay_job",
    "domain_event_relay_schedule": "domain_event_relay_job",
    "prune_outboxes_schedule": "prune_outboxes_job",
    "purge_dagster_storage_schedule": "purge_dagster_storage_job",
    "stale_frame_job_sweep_schedule": "stale_frame_job_sweep_job",
}
EDGES = {
    "application/documents": set(),
    "application/matters": set(),
    "application/firm_inference_egress_consents": set(),
    "outbox/document_ingest_outbox": {"application/documents"},
    "outbox/domain_event_outbox": {"application/matters"},
    "messaging/documents_ingestion_queue": {"outbox/document_ingest_outbox"},
    "messaging/documents_registration_queue": {"outbox/document_ingest_outbox"},
    "messaging/events_bus": {"outbox/domain_event_outbox"},
    "messaging/framer_events_queue": {"messaging/events_bus"},
    "messaging/documents_ingestion_dead_letters": {"messaging/documents_ingestion_queue"},
    "messaging/documents_registration_dead_letters": {"messaging/documents_registration_queue"},
    "messaging/framer_events_dead_letters": {"messaging/framer_events_queue"},
    "messaging/undeliverable_events": {"messaging/events_bus"},
    "framer/matter_frame_jobs": {
        "messaging/framer_events_queue",
        "application/matters",
        "application/firm_inference_egress_consents",
    },
    "framer/agent_run": {"framer/matter_frame_jobs"},
    "framer/vega_matter_frame": {"framer/agent_run"},
}

NO_SOCKETS = """
import socket

def refuse(*_, **__):
    raise AssertionError("a socket at import")

for name in ("connect", "connect_ex", "bind", "sendto"):
    setattr(socket.socket, name, refuse)
socket.getaddrinfo = socket.create_connection = refuse
import pramaan_pipelines.definitions
import warnings
with warnings.catch_warnings():
    # As in pyproject: a parameter that Dagster passes to itself.
    warnings.filterwarnings("ignore", "Parameter .owners. of initializer .SensorDefinition")
    from dagster._core.remote_representation.external_data import RepositorySnap
    loaded = pramaan_pipelines.definitions.defs.get_repository_def()
    # What the code server makes of it: every job, schedule, sensor, and the asset graph. There
    # Dagster asks itself for what it deprecated.
    warnings.filterwarnings("ignore", "Property .ScheduleDefinition.environment_vars. is")
    snap = RepositorySnap.from_def(loaded)
assert snap.job_datas or snap.job_refs
assert {s.name for s in loaded.schedule_defs} == {s.name for s in snap.schedules}
assert {s.name for s in loaded.sensor_defs} == {s.name for s in snap.sensors}
assert len(snap.asset_nodes) == len(loaded.asset_graph.get_all_asset_keys())
print(len([name for name in loaded.job_names if not name.startswith("__")]))
"""


@pytest.fixture(scope="module")
def loaded() -> RepositoryDefinition:
    return defs.get_repository_def()


@pytest.fixture(params=sorted(JOBS))
def job(request: pytest.FixtureRequest) -> JobDefinition:
    return defs.resolve_job_def(request.param)


def in_a_fresh_process(
    folder: Path, *command: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run the virtual environment's Python in `folder`, with `environment` and little else."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def a_configured_environment() -> dict[str, str]:
    values = dict.fromkeys(REQUIRED, "http://127.0.0.1:1/none")
    return values | {
        "PRAMAAN_ENVIRONMENT": "test",
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
    }


def test_the_names_of_jobs_schedules_and_sensors_are_frozen(loaded: RepositoryDefinition) -> None:
    """A renamed schedule or sensor comes up as another one, and the old one's state is lost."""
    assert {name for name in loaded.job_names if not name.startswith("__")} == JOBS
    assert {s.name: s.job_name for s in loaded.schedule_defs} == SCHEDULES
    assert {s.name: {target.job_name for target in s.targets} for s in loaded.sensor_defs} == {
        "framer_events_sensor": {"framer_trigger_job"},
        "frame_healing_sensor": {"frame_healing_job"},
        "relay_wake_up_sensor": {f"{lane.name}_job" for lane in LANES},
        "road_watch_sensor": {"check_road_job"},
    }


def test_the_assets_are_the_road_with_its_edges(loaded: RepositoryDefinition) -> None:
    graph = loaded.asset_graph
    assert {
        key.to_user_string(): {parent.to_user_string() for parent in graph.get(key).parent_keys}
        for key in graph.get_all_asset_keys()
    } == EDGES


def test_every_asset_tells_what_it_is() -> None:
    assert [spec.key for spec in road() if not spec.description or not spec.kinds] == []
    assert {spec.group_name for spec in road()} == {"application", "outbox", "messaging", "framer"}


def test_the_framer_queue_is_reached_from_the_matters(loaded: RepositoryDefinition) -> None:
    """The graph reads as a pipeline, from the application's table to the agent."""
    graph = loaded.asset_graph
    road: list[str] = []
    key: AssetKey | None = AssetKey(["framer", "vega_matter_frame"])
    while key is not None:
        road.append(key.path[-1])
        parents = graph.get(key).parent_keys
        key = next((p for p in sorted(parents, reverse=True) if p.path[0] != "application"), None)
    assert road == [
        "vega_matter_frame",
        "agent_run",
        "matter_frame_jobs",
        "framer_events_queue",
        "events_bus",
        "domain_event_outbox",
    ]


def test_every_schedule_and_sensor_comes_up_running(loaded: RepositoryDefinition) -> None:
    for schedule in loaded.schedule_defs:
        assert schedule.default_status is DefaultScheduleStatus.RUNNING, schedule.name
        seldom = {
            "prune_outboxes_schedule": "17 3 * * *",
            "purge_dagster_storage_schedule": "47 * * * *",
        }
        cron = seldom.get(schedule.name, "* * * * *")
        assert (schedule.cron_schedule, schedule.execution_timezone) == (cron, "UTC")
        assert schedule.description
    slowest_of = {
        "framer_events_sensor": 5,
        "frame_healing_sensor": 30,
        "relay_wake_up_sensor": 5,
        "road_watch_sensor": 60,
    }
    for sensor in loaded.sensor_defs:
        # The schedules drain without it; where it runs is a setting.
        opt_in = sensor.name == "relay_wake_up_sensor"
        status = DefaultSensorStatus.STOPPED if opt_in else DefaultSensorStatus.RUNNING
        assert sensor.default_status is status, sensor.name
        slowest = slowest_of[sensor.name]
        assert 0 < (sensor.minimum_interval_seconds or 30) <= slowest
        assert sensor.description


def test_every_job_is_bounded_retried_by_nobody_else_and_described(job: JobDefinition) -> None:
    """The queue, or the next tick, is the one thing that retries; a dead run ends by its bound."""
    assert job.tags["dagster/max_retries"] == "0"
    longest = 3600 if job.partitions_def else 900  # a day may be of a million rows
    assert 60 <= int(job.tags["dagster/max_runtime"]) <= longest
    assert job.executor_def.name == "in_process"
    assert job.description
    assert all(node.definition.description for node in job.nodes)


@pytest.mark.parametrize("name", ["framer_trigger_job", "frame_healing_job"])
def test_the_framer_runs_longest_road_fits_in_the_queues_visibility(name: str) -> None:
    """A run that is cut by its bound is cut before its message comes again."""
    bound = int(defs.resolve_job_def(name).tags["dagster/max_runtime"])
    assert bound < 1320


def test_loading_warns_of_nothing_and_opens_no_socket(tmp_path: Path) -> None:
    """Postgres's library connects below Python's sockets, so somebody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/none"
        database = url.replace("http://", "postgresql://nobody@") + "?connect_timeout=2"
        environment = dict.fromkeys(REQUIRED, url) | {
            "PRAMAAN_ENVIRONMENT": "test",
            "DATABASE_URL": database,
            "MAINTENANCE_DATABASE_URL": database,
            "AWS_ENDPOINT_URL": url,
        }
        done = in_a_fresh_process(tmp_path, "-W", "error", "-c", NO_SOCKETS, **environment)
        listener.setblocking(False)  # noqa: FBT003 - it takes no name
        with pytest.raises(BlockingIOError):
            listener.accept()[0].close()
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(len(JOBS))


def test_definitions_validate_without_any_setting_and_say_which_are_missing(tmp_path: Path) -> None:
    done = _validate(tmp_path)
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr
    assert "not configured: " in told
    assert "Run `pramaan up`" in told
    for name in REQUIRED:
        assert name in told


def test_definitions_validate_from_the_workspace_file_with_settings(
    tmp_path: Path, repository: Path
) -> None:
    for name in ("workspace.yaml", "dagster.yaml"):
        (tmp_path / name).write_bytes((repository / name).read_bytes())
    done = _validate(tmp_path, **a_configured_environment())
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr
    assert "Validation successful for code location pramaan_pipelines" in told
    assert "not configured" not in told


def _validate(folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    target = [] if (folder / "workspace.yaml").exists() else ["-m", "pramaan_pipelines.definitions"]
    return in_a_fresh_process(
        folder, "-m", "dagster", "definitions", "validate", *target, **environment
    )


def test_each_missing_setting_of_the_code_location_is_one_that_settings_know() -> None:
    assert {name.lower() for name in REQUIRED} <= set(Settings.model_fields)


def test_the_owners_of_the_assets_are_a_setting_and_a_wrong_one_stops_nothing(
    tmp_path: Path,
) -> None:
    told = """
import pramaan_pipelines.definitions as d
graph = d.defs.get_repository_def().asset_graph
owners = {tuple(graph.get(key).owners) for key in graph.get_all_asset_keys()}
print([sorted(each) for each in owners])
"""
    for value, owners in (
        ("team:platform,on-call@example.com", "[['on-call@example.com', 'team:platform']]"),
        ("nobody", "[[]]"),
    ):
        done = in_a_fresh_process(tmp_path, "-c", told, PRAMAAN_ASSET_OWNERS=value)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == owners
        assert ("assets are shown without owners" in done.stderr) == (value == "nobody")
