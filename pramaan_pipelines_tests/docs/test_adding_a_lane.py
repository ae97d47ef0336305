"""docs/adding-a-lane.md, applied to a copy of the package; a row goes through the new lane."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from boto3.session import Session

from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.docs.blocks import blocks
from pramaan_pipelines_tests.orchestration.conftest import configured
from pramaan_pipelines_tests.support.world import TRACEPARENT, World

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


@pytest.fixture
def changed(repository: Path, tmp_path: Path) -> Path:
    """A copy of the package with the page's change."""
    shutil.copytree(repository / "pramaan_pipelines", tmp_path / "pramaan_pipelines")
    (diff,) = blocks(PAGE, "diff")
    applied = subprocess.run(
        ["git", "apply", "-p1", "-C1", "-"],
        input=diff,
        cwd=tmp_path,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert applied.returncode == 0, f"bring docs/{PAGE} up to date: {applied.stderr}"
    return tmp_path


def test_the_change_is_a_lane_and_names_and_touches_nothing_that_is_shared() -> None:
    (diff,) = blocks(PAGE, "diff")
    files = re.findall(r"(?m)^\+\+\+ b/pramaan_pipelines/(.*)$", diff)
    assert "outbox/lanes.py" in files
    assert not [name for name in files if name.startswith(SHARED)]
    added = [line for line in diff.splitlines() if re.match(r"\+(?!\+\+)", line)]
    assert len(added) < 20


def test_a_row_of_the_new_lane_reaches_the_new_subscriber_and_nobody_else(
    changed: Path, configured: Settings, world: World
) -> None:
    (template,) = blocks(PAGE, "yaml")
    cloudformation = Session().client(
        "cloudformation",
        region_name=configured.aws_region,
        endpoint_url=configured.aws_endpoint_url,
    )
    cloudformation.create_stack(
        StackName="archive",
        TemplateBody=template,
        Parameters=[{"ParameterKey": "Environment", "ParameterValue": "test"}],
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="archive", WaiterConfig={"Delay": 1}
    )
    document, event_id = world.document(world.firm_a), uuid4()
    world.god.execute(
        "INSERT INTO ops.document_ingest_outbox "
        "(event_id, firm_id, document_id, event_type, traceparent) VALUES (%s, %s, %s, %s, %s)",
        [event_id, world.firm_a, document, "document.archived", TRACEPARENT],
    )
    assert world.pending("document.archived") == 1
    ran = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=changed,
        env={**os.environ, "PYTHONPATH": str(changed)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout.splitlines()[-1])
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
