"""A real daemon on a database and an account of the test's own, which can be killed and started."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from dagster import DagsterInstance

from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.orchestration.found_runs import FoundRun, framer_runs, instance_at
from pramaan_pipelines_tests.support.world import World

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

LIMIT_SECONDS = 90.0


@dataclass
class Live:
    """The stack as the daemon's processes see it.

    Attributes:
        home: DAGSTER_HOME.
        workspace: what the daemon loads.
        variables: the environment of its processes.
        queue: the framer queue, seen from the test.
        queue_url: its URL, past the proxy.
        sqs: a client of the test's own.
        world: the database, seen from the test.
    """

    home: Path
    workspace: Path
    variables: dict[str, str]
    queue: QueueConsumer
    queue_url: str
    sqs: "SQSClient"
    world: World
    daemons: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @contextmanager
    def daemon(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Run the daemon, which starts its own code server, while the block runs."""
        with (self.home / "daemon.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dagster._daemon", "run", "-w", str(self.workspace)],
                env={**os.environ, **self.variables, "DAGSTER_HOME": str(self.home)},
                cwd=self.home,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            kill_everything(process)

    @contextmanager
    def instance(self) -> Iterator[DagsterInstance]:
        """Open the instance, as an operator's command would."""
        with instance_at(self.home) as instance:
            yield instance

    def runs(self) -> list[FoundRun]:
        """Return the framer runs so far, newest first."""
        with self.instance() as instance:
            return framer_runs(instance)

    def send(self, body: str) -> None:
        """Put a message on the framer queue, past the proxy."""
        self.sqs.send_message(QueueUrl=self.queue_url, MessageBody=body)

    def ended(self, outcome: str) -> list[FoundRun]:
        """Return the runs that succeeded with `outcome`."""
        return [r for r in self.runs() if r.status == "SUCCESS" and r.outcome == outcome]

    def worker_of(self, run_id: str) -> int:
        """Return the process id of a run's worker, as the event log tells it."""
        with self.instance() as instance:
            texts = [record.message or "" for record in instance.all_logs(run_id)]
        found = re.search(r"Executing steps in process \(pid: (\d+)\)", "\n".join(texts))
        assert found, "the run has not begun"
        return int(found[1])

    def log(self) -> str:
        """Return the end of what the daemon printed."""
        return (self.home / "daemon.log").read_text()[-4000:]

    def wait_until(
        self, what: Callable[[], object], seconds: float = LIMIT_SECONDS, pause: float = 0.3
    ) -> None:
        """Wait until `what` is true, looking every `pause` seconds."""
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, f"it did not come true in time:\n{self.log()}"
            time.sleep(pause)


def kill_everything(process: "subprocess.Popen[bytes]") -> None:
    """SIGKILL a process and all that it started, as a machine that goes down would."""
    family = [process.pid]
    with suppress(psutil.NoSuchProcess):
        family += [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
