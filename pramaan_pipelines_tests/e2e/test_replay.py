"""Days backfilled through the real daemon: by GraphQL, by the command line, and through a kill."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import RunsFilter
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.storage.tags import PARTITION_NAME_TAG

from pramaan_pipelines.orchestration import names
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST, DOMAIN_EVENT, Lane
from pramaan_pipelines_tests.e2e.live import Live
from pramaan_pipelines_tests.outbox.bench import put, row
from pramaan_pipelines_tests.support.proxy import HoldingProxy

pytestmark = pytest.mark.e2e

LAUNCH = """
    mutation Launch($params: LaunchBackfillParams!) {
        launchPartitionBackfill(backfillParams: $params) {
            __typename
            ... on LaunchBackfillSuccess { backfillId }
            ... on PythonError { message }
        }
    }
"""
JOBS = ("document_ingest_replay_job", "domain_event_replay_job")
DONE = BulkActionStatus.COMPLETED_SUCCESS
REPLAY_PLACES = 2
"""What dagster.yaml allows at once."""


@pytest.fixture(autouse=True)
def storage(live: Live) -> None:
    """Let the instance's storage be made before a daemon and a command would both make it."""
    with live.instance():
        pass


def day(ago: int) -> str:
    return str((datetime.now(UTC) - timedelta(days=ago)).date())


def put_sent(live: Live, lane: Lane, ago: int, count: int = 1) -> list[str]:
    """Write rows that were created and sent so many days ago."""
    events = put(live.world, lane, count)
    live.world.god.execute(
        f"UPDATE {lane.outbox.table} SET created_at = %(time)s, dispatched_at = %(time)s "  # noqa: S608
        "WHERE event_id = ANY (%(events)s::uuid[])",
        {"time": datetime.now(UTC) - timedelta(days=ago), "events": events},
    )
    return events


def command(live: Live, name: str, *arguments: str) -> None:
    """Run one of Dagster's commands on the live instance."""
    done = subprocess.run(
        [Path(sys.executable).with_name(name), *arguments],
        env={**os.environ, **live.variables, "DAGSTER_HOME": str(live.home)},
        cwd=live.home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout


def by_graphql(live: Live, job: str, days: list[str], config: dict[str, Any]) -> str:
    """Launch a backfill as the UI does; return its id."""
    params = {
        "selector": {
            "partitionSetName": f"{job}_partition_set",
            "repositorySelector": {
                "repositoryLocationName": "pramaan_pipelines",
                "repositoryName": "__repository__",
            },
        },
        "partitionNames": days,
        "runConfigData": {"ops": {f"replay_{job.removesuffix('_replay_job')}": {"config": config}}},
    }
    variables = json.dumps({"params": params})
    answer = live.home / "answer.json"
    command(
        live,
        *("dagster-graphql", "-w", str(live.workspace), "-o", str(answer)),
        *("-t", LAUNCH, "-v", variables),
    )
    launched = json.loads(answer.read_text())["data"]["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched
    return str(launched["backfillId"])


def by_command_line(live: Live, job: str, first: str, last: str, tags: dict[str, str]) -> None:
    command(
        live,
        *("dagster", "job", "backfill", "-w", str(live.workspace), "-j", job, "--noprompt"),
        *("--from", first, "--to", last, "--tags", json.dumps(tags)),
    )


def backfill_status(live: Live, backfill: str) -> BulkActionStatus | None:
    with live.instance() as instance:
        found = instance.get_backfill(backfill)
    return found and found.status


def statuses(live: Live, job: str) -> dict[str, list[str]]:
    """Return the statuses of the job's runs by day, oldest first."""
    found: dict[str, list[str]] = {}
    with live.instance() as instance:
        for run in instance.get_runs(RunsFilter(job_name=job))[::-1]:
            found.setdefault(run.tags[PARTITION_NAME_TAG], []).append(run.status.value)
    return found


SLOW_SECONDS = 2.0
"""A call of the replay's; well within what its client waits for."""
ROWS_OF_A_DAY = 70
"""So many slow calls that the replays outlast any live relay that does not wait for them."""


@dataclass
class Queue:
    """Answers in the queue's place: accepts, and takes its time over some events.

    Attributes:
        slow: event ids whose call takes SLOW_SECONDS, until `hurry` is set.
        taken: every event id that it accepted, in order.
        most: the most slow calls at one time.
    """

    slow: set[str] = field(default_factory=set)
    taken: list[str] = field(default_factory=list)
    most: int = 0
    now: int = 0
    hurry: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: bytes) -> tuple[int, object]:
        entries = json.loads(body)["Entries"]
        ids = [json.loads(entry["MessageBody"])["event_id"] for entry in entries]
        slow = bool(self.slow & set(ids))
        with self.lock:
            self.taken += ids
            self.now += slow
            self.most = max(self.most, self.now)
        if slow:
            self.hurry.wait(SLOW_SECONDS)
        with self.lock:
            self.now -= slow
        return 200, {"Successful": [{"Id": e["Id"], "MessageId": "m" + e["Id"]} for e in entries]}


@pytest.mark.long  # a schedule's minute
@pytest.mark.timeout(600)
def test_many_days_run_two_at_a_time_while_the_live_relay_of_the_lane_goes_on(
    live: Live, proxy: HoldingProxy
) -> None:
    """The first backfill by GraphQL, as the UI launches it; one of another lane by the CLI."""
    job, other, tags = *JOBS, {names.TAG_ALSO_SENT: "true"}
    old = [
        event
        for n in range(1, 4)
        for event in put_sent(live, DOCUMENT_INGEST, n, count=ROWS_OF_A_DAY)
    ]
    framed = [event for n in (1, 2) for event in put_sent(live, DOMAIN_EVENT, n)]
    queue = Queue(slow=set(old))
    with proxy.answering("SendMessageBatch", queue.answer), live.daemon():
        days = [day(n) for n in range(1, 4)]
        backfill = by_graphql(live, job, days, {"also_sent": True, "batch_rows": 1})
        live.wait_until(lambda: queue.most == REPLAY_PLACES)
        (new,) = put(live.world, DOCUMENT_INGEST)
        live.wait_until(lambda: row(live.world, DOCUMENT_INGEST, new)["dispatched_at"], 150)
        assert set(old) - set(queue.taken), "the live relay waited for the replays"
        queue.hurry.set()
        by_command_line(live, other, day(2), day(1), tags)
        live.wait_until(lambda: backfill_status(live, backfill) is DONE, 150)
        live.wait_until(lambda: statuses(live, other) == {day(2): ["SUCCESS"], day(1): ["SUCCESS"]})
    assert queue.most == REPLAY_PLACES
    assert Counter(queue.taken) == Counter([*old, new])
    sent_again = "SELECT sum(again) FROM ops.outbox_replays WHERE lane = %s"
    assert live.world.one(sent_again, DOMAIN_EVENT.name) == len(framed)


def test_a_backfill_whose_worker_is_killed_goes_on_where_it_stopped(
    live: Live, proxy: HoldingProxy
) -> None:
    (job, _), yesterday = JOBS, day(1)
    events = put_sent(live, DOCUMENT_INGEST, 1, count=6)
    queue = Queue(slow={events[2]})
    with proxy.answering("SendMessageBatch", queue.answer), live.daemon():
        by_graphql(live, job, [yesterday], {"also_sent": True, "batch_rows": 2})
        live.wait_until(lambda: events[2] in queue.taken, pause=0.05)
        with live.instance() as instance:
            (run,) = instance.get_runs(RunsFilter(job_name=job))
        os.kill(live.worker_of(run.run_id), signal.SIGKILL)
        live.wait_until(lambda: statuses(live, job) == {yesterday: ["FAILURE"]})
        by_command_line(live, job, yesterday, yesterday, {names.TAG_ALSO_SENT: "true"})
        live.wait_until(lambda: statuses(live, job) == {yesterday: ["FAILURE", "SUCCESS"]})
    assert Counter(queue.taken) == Counter([*events, *events[2:4]]), "one batch, and no other"
    assert live.world.rows("SELECT status, again FROM ops.outbox_replays") == [("finished", 6)]
