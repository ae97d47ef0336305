"""docs/adding-a-lane.md, applied to a copy of the package; a row goes through the new lane."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from boto3.session import Session

from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.docs.blocks import blocks
from pramaan_pipelines_tests.orchestration.conftest import configured
from pramaan_pipelines_tests.support.world import TRACEPARENT, World, body

__all__ = ["configured"]

PAGE = "adding-a-lane.md"
SHARED = (
    "outbox/drain.py",
    "outbox/relay.py",
    "outbox/selection.py",
    "framer/",
    "orchestration/",
    "watch/",
    "cli.py",
    "definitions.py",
)
"""What no new lane may need a change of."""
A_SUBSCRIBER_S_OWN = ("orchestration/consumers.py", "orchestration/archive.py")
"""What of the shared rooms a new subscriber adds: its entry, and its job."""

RUN = """
import json
from dagster import DagsterInstance
from pramaan_pipelines.definitions import defs
job = defs.resolve_job_def("document_archived_relay_job")
with DagsterInstance.ephemeral() as instance:
    assert job.execute_in_process(instance=instance).success
print(json.dumps({
    "jobs": sorted(job.name for job in defs.resolve_all_job_defs()),
    "schedules": sorted(schedule.name for schedule in defs.schedules),
}))
"""


CONSUME = """
import json
from dagster import DagsterInstance, build_sensor_context
from pramaan_pipelines.definitions import defs
from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines.watch.checks import CHECKS
repository = defs.get_repository_def()
sensor = repository.get_sensor_def("archive_sensor")
needed = ("settings", "database", "archive_queue")
made, runs = make_resources(), []
with DagsterInstance.ephemeral() as instance:
    with build_sensor_context(
        instance=instance, resources={key: made[key] for key in needed}
    ) as context:
        tick = sensor.evaluate_tick(context)
    for request in tick.run_requests:
        ran = defs.resolve_job_def("archive_job").execute_in_process(
            run_config=request.run_config,
            tags=request.tags,
            instance=instance,
            raise_on_error=False,
        )
        tags = instance.get_run_by_id(ran.run_id).tags
        runs.append({"success": ran.success, "tags": dict(tags)})
print(json.dumps({
    "runs": runs,
    "running": sensor.default_status.value,
    "checks": sorted(check.subject for check in CHECKS),
    "assets": sorted(key.path[-1] for key in repository.asset_graph.get_all_asset_keys()),
}))
"""


def patched(repository: Path, into: Path, diffs: list[str]) -> Path:
    """Return a copy of the package with `diffs` applied, one after the other."""
    shutil.copytree(repository / "pramaan_pipelines", into / "pramaan_pipelines")
    for diff in diffs:
        applied = subprocess.run(
            ["git", "apply", "-p1", "-C1", "-"],
            input=diff,
            cwd=into,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(into.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert applied.returncode == 0, f"bring docs/{PAGE} up to date: {applied.stderr}"
    return into


def told(program: str, package: Path) -> Any:
    """Return what `program` prints, run with the copy of the package."""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=package,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])


def files_of(diff: str) -> list[str]:
    return re.findall(r"(?m)^\+\+\+ b/pramaan_pipelines/(.*)$", diff)


def subscribe(settings: Settings) -> None:
    """Make the page's queue and rule."""
    (template,) = blocks(PAGE, "yaml")
    cloudformation = Session().client(
        "cloudformation",
        region_name=settings.aws_region,
        endpoint_url=settings.aws_endpoint_url,
    )
    cloudformation.create_stack(
        StackName="archive",
        TemplateBody=template,
        Parameters=[{"ParameterKey": "Environment", "ParameterValue": "test"}],
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="archive", WaiterConfig={"Delay": 1}
    )


def test_the_change_is_a_lane_and_names_and_touches_nothing_that_is_shared() -> None:
    lane, _ = blocks(PAGE, "diff")
    assert "outbox/lanes.py" in files_of(lane)
    assert not [name for name in files_of(lane) if name.startswith(SHARED)]
    added = [line for line in lane.splitlines() if re.match(r"\+(?!\+\+)", line)]
    assert len(added) < 20


def test_a_subscriber_is_an_entry_and_a_job_and_touches_nothing_that_is_shared() -> None:
    _, subscriber = blocks(PAGE, "diff")
    shared = {name for name in files_of(subscriber) if name.startswith(SHARED)}
    assert shared == set(A_SUBSCRIBER_S_OWN)
    entry = subscriber.split("b/pramaan_pipelines/orchestration/consumers.py\n")[-1]
    entry = entry.split("diff --git")[0]
    assert len(re.findall(r"(?m)^\+(?!\+\+)", entry)) == 2  # its import, and itself


def test_a_row_of_the_new_lane_reaches_the_new_subscriber_and_nobody_else(
    repository: Path, tmp_path: Path, configured: Settings, world: World
) -> None:
    changed = patched(repository, tmp_path, blocks(PAGE, "diff")[:1])
    subscribe(configured)
    document, event_id = world.document(world.firm_a), uuid4()
    world.god.execute(
        "INSERT INTO ops.document_ingest_outbox "
        "(event_id, firm_id, document_id, event_type, traceparent) VALUES (%s, %s, %s, %s, %s)",
        [event_id, world.firm_a, document, "document.archived", TRACEPARENT],
    )
    assert world.pending("document.archived") == 1
    found = told(RUN, changed)
    assert {"document_archived_relay_job", "document_archived_replay_job"} <= set(found["jobs"])
    assert "document_archived_relay_schedule" in found["schedules"]
    assert world.pending("document.archived") == 0
    sqs = client("sqs", configured)
    url = sqs.get_queue_url(QueueName="archive-test")["QueueUrl"]
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    detail = json.loads(message["Body"])["detail"]
    assert (detail["event_id"], detail["traceparent"]) == (str(event_id), TRACEPARENT)
    framer = configured.require("framer_events_queue_url")
    assert not sqs.receive_message(QueueUrl=framer).get("Messages")


def test_a_second_job_consumes_its_own_queue_by_the_same_mechanism(
    repository: Path,
    tmp_path: Path,
    configured: Settings,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the bus to a run that ends well; what is no envelope of its own is handed back, red."""
    changed = patched(repository, tmp_path, blocks(PAGE, "diff"))
    subscribe(configured)
    sqs = client("sqs", configured)
    url = sqs.get_queue_url(QueueName="archive-test")["QueueUrl"]
    monkeypatch.setenv("ARCHIVE_QUEUE_URL", url)
    event_id = str(uuid4())
    good = {
        "event_id": event_id,
        "event_type": "document.archived",
        "firm_id": str(world.firm_a),
        "document_id": str(uuid4()),
        "occurred_at": "2026-01-01T00:00:00Z",
        "traceparent": TRACEPARENT,
    }
    client("events", configured).put_events(
        Entries=[
            {
                "EventBusName": configured.require("event_bus_name"),
                "Source": "pramaan",
                "DetailType": "document.archived",
                "Detail": json.dumps(good),
            }
        ]
    )
    sqs.send_message(QueueUrl=url, MessageBody=body(world.firm_a, world.matter(world.firm_a)))
    framer = configured.require("framer_events_queue_url")
    sqs.send_message(QueueUrl=framer, MessageBody="the framer's own")

    found = told(CONSUME, changed)
    done, refused = sorted(found["runs"], key=lambda run: not run["success"])
    assert (done["success"], refused["success"]) == (True, False)
    assert done["tags"]["pramaan/event_id"] == event_id
    assert done["tags"]["pramaan/trace_id"] == TRACEPARENT.split("-")[1]
    assert refused["tags"]["pramaan/reason"] == "malformed"
    assert "pramaan/event_id" not in refused["tags"]
    assert found["running"] == "RUNNING"
    assert {"archive_queue", "archive_dead_letters"} <= set(found["assets"])
    assert "archive_dead_letters" in found["checks"]
    queue = QueueConsumer(sqs, url)
    assert queue.depth().total == 1  # the good one is deleted, the refused one visible again
    (again,) = queue.receive(1, 5)
    assert again.receive_count == 2
    assert QueueConsumer(sqs, framer).depth().visible == 1
