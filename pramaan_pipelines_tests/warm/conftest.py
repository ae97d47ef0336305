"""An instance with the warm launcher, and a code server of a location that tests may change."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from dagster import DagsterInstance, DagsterRun
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget

from pramaan_pipelines.orchestration.warm.launcher import FOLDER, WarmRunLauncher
from pramaan_pipelines.orchestration.warm.workers import RunWorkers
from pramaan_pipelines_tests.support.made_runs import made_run

LIMIT_SECONDS = 60.0
LAUNCHER = {"module": WarmRunLauncher.__module__, "class": WarmRunLauncher.__name__}


@dataclass
class Site:
    """What runs are launched on.

    Attributes:
        home: DAGSTER_HOME.
        source: the location's file, which a test may change.
        instance: as the daemon has it.
        process: holds the code server.
    """

    home: Path
    source: Path
    instance: DagsterInstance
    process: WorkspaceProcessContext

    @property
    def workers(self) -> RunWorkers:
        """Where the workers are registered."""
        return RunWorkers(self.home / FOLDER)

    def launch(self, job: str) -> str:
        """Have the instance's launcher launch a run of `job`; return its id."""
        workspace = self.process.create_request_context()
        run = made_run(self.instance, workspace, job)
        self.instance.launch_run(run.run_id, workspace)
        return run.run_id

    def run(self, run_id: str) -> DagsterRun:
        """Return the run as it stands."""
        run = self.instance.get_run_by_id(run_id)
        assert run is not None
        return run

    def finished(self, run_id: str) -> DagsterRun:
        """Wait for the run's end, and return it."""
        self.wait_until(lambda: self.run(run_id).is_finished)
        return self.run(run_id)

    def texts(self, run_id: str) -> str:
        """Return what the run's event log says."""
        return "\n".join(entry.message or "" for entry in self.instance.all_logs(run_id))

    def end_workers(self) -> None:
        """Kill what still waits."""
        for file in self.workers.folder.glob("*"):
            worker = self.workers.alive(file.name)
            if worker:
                psutil.Process(worker).kill()

    def wait_until(self, what: Callable[[], object]) -> None:
        """Wait until `what` is true."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not what():
            assert time.monotonic() < deadline, "it did not come true in time"
            time.sleep(0.05)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The instance, with a code server of a copy of location.py."""
    source = tmp_path / "code" / "warm_test_location.py"
    source.parent.mkdir()
    shutil.copyfile(Path(__file__).parent / "location.py", source)
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(
        json.dumps({"run_launcher": LAUNCHER, "telemetry": {"enabled": False}})
    )
    monkeypatch.setenv("GIVEN_TO_THE_DAEMON", "a setting")
    # Ours, as `-w` of the daemon gives it: the zygote's interpreter has to find the module too.
    monkeypatch.setenv("PYTHONPATH", str(source.parent))
    with ExitStack() as ending:
        instance = ending.enter_context(DagsterInstance.from_config(str(home)))
        target = ModuleTarget(source.stem, None, str(source.parent), "warm_test_location")
        process = WorkspaceProcessContext(instance, target)
        # Dagster ends its code servers and does not wait for them.
        ending.callback(process._grpc_server_registry.wait_for_processes)
        ending.enter_context(process)
        site = Site(home, source, instance, process)
        ending.callback(site.end_workers)
        yield site
