"""The run launcher of one machine: workers come from a zygote, or else as Dagster's own.

A fresh interpreter that imports Dagster and the code location is most of what a small run costs
(docs/performance.md). The zygote has imported both; forking it is milliseconds.

Promises: a run is launched once, whatever fails on the way; a code location that was reloaded gets
a zygote of its own, so that no run sees old code; a worker that died is found, also after a restart
of the daemon.
Never: launches warm what does not run here, by this interpreter, from a module.
"""

import json
import logging
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Lock, Thread
from time import monotonic
from typing import Any, Final, Self

from dagster import DagsterRun
from dagster._config.config_schema import UserConfigSchema
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.instance.ref import InstanceRef
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher
from dagster._core.origin import JobPythonOrigin
from dagster._core.remote_representation.code_location import GrpcServerCodeLocation
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import ConfigurableClassData, serialize_value

from pramaan_pipelines.errors import PramaanError
from pramaan_pipelines.orchestration.warm.workers import RunWorkers
from pramaan_pipelines.orchestration.warm.zygote import READY

WARM_TAG: Final = "pramaan/warm_worker"
"""Carries the worker's process id, for a person; liveness is the lock's to tell."""

FOLDER: Final = "run_workers"
START_SECONDS: Final = 60.0
FORK_SECONDS: Final = 15.0
COLD_SECONDS: Final = 300.0
"""For which code that cannot be warm is not tried again: each try costs a start, or its time."""
HERE: Final = (None, "", "localhost", "127.0.0.1", "::1")

logger = logging.getLogger(__name__)


class ZygoteError(PramaanError):
    """The zygote does not serve; the run is launched by Dagster's own launcher instead."""


class ZygoteRefusedError(ZygoteError):
    """It cannot serve, and another one could not either, until the code or the machine changes."""


class ZygoteProcess:
    """A running zygote, as its launcher sees it."""

    def __init__(
        self, folder: Path, modules: tuple[str, ...], working_directory: str | None
    ) -> None:
        """Start it, and wait until it has imported.

        Raises:
            ZygoteRefusedError: it did not come up.
        """
        self._lock = Lock()
        self._channel, theirs = socket.socketpair()
        self._lines = self._channel.makefile("r")
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - ourselves
                    [
                        *(sys.executable, "-m", "pramaan_pipelines.orchestration.warm.zygote"),
                        *(str(theirs.fileno()), str(folder), *modules),
                    ],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    cwd=working_directory,
                )
            except OSError as error:
                self._hang_up()
                raise ZygoteRefusedError(f"no zygote can be started: {error}") from None
        try:
            self._read(START_SECONDS, READY)
        except ZygoteError as error:
            self.kill()
            raise ZygoteRefusedError(str(error)) from None

    def fork(self, run_id: str, arguments: str) -> int:
        """Have a worker forked for the run; return its process id.

        Raises:
            ZygoteError: it forked none, or does not answer and may have forked one.
        """
        request = json.dumps({"run_id": run_id, "arguments": arguments}).encode() + b"\n"
        with self._lock:
            try:
                self._channel.sendall(request)
            except OSError as error:
                raise ZygoteError(f"the zygote is gone: {error}") from None
            return self._read(FORK_SECONDS, "pid")

    def close(self) -> None:
        """Hang up: it ends when its workers have."""
        self._hang_up()
        # Somebody has to collect its exit code, and no launch shall wait for old workers.
        Thread(target=self._process.wait, daemon=True).start()

    def kill(self) -> None:
        """End it at once; its workers go on."""
        self._hang_up()
        self._process.kill()
        self._process.wait()

    def _hang_up(self) -> None:
        self._lines.close()
        self._channel.close()

    def _read(self, seconds: float, key: str) -> int:
        try:
            self._channel.settimeout(seconds)
            answer = json.loads(self._lines.readline() or "{}")
        except (OSError, ValueError) as error:
            raise ZygoteError(f"the zygote does not answer: {error}") from None
        if "error" in answer:
            raise ZygoteRefusedError(f"the zygote: {answer['error']}")
        if key not in answer:
            raise ZygoteError("the zygote: it ended")
        return int(answer[key])


class WarmRunLauncher(DefaultRunLauncher):
    """Launches runs from a zygote per code server; everything else as Dagster's default does."""

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(inst_data=inst_data)
        self._zygotes: dict[str, tuple[str, ZygoteProcess]] = {}
        self._cold: dict[str, tuple[str, float]] = {}
        self._starting = Lock()

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """Return the schema of its configuration, which is empty."""
        return {}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]
    ) -> Self:
        """Make it as dagster.yaml asks."""
        del config_value
        return cls(inst_data=inst_data)

    def launch_run(self, context: LaunchRunContext) -> None:
        """Launch the run: warm where that can be, else as Dagster's default does."""
        run = context.dagster_run
        location, origin = _location(context), run.job_code_origin
        pointer = None if origin is None else origin.repository_origin.code_pointer
        if (
            location is not None
            and origin is not None
            and isinstance(pointer, ModuleCodePointer)
            and _runs_here(location, origin)
        ):
            try:
                pid = self._fork(run, origin, location, pointer)
            except ZygoteError as error:
                logger.warning("run %s is launched by a fresh process: %s", run.run_id, error)
            else:
                self._instance.add_run_tags(run.run_id, {WARM_TAG: str(pid)})
                self._run_ids.add(run.run_id)
                return
        super().launch_run(context)

    def terminate(self, run_id: str) -> bool:
        """Interrupt the run's worker; True where there was one."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        if WARM_TAG not in run.tags:
            return bool(super().terminate(run_id))  # type: ignore[no-untyped-call]  # Dagster's
        self._instance.report_run_canceling(run)
        return self._workers.interrupt(run_id)

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Whether run monitoring can ask: it can."""
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Tell whether the run's worker lives; of a run launched by its code server, that knows."""
        if WARM_TAG not in run.tags or self._workers.alive(run.run_id) is not None:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(
            WorkerStatus.FAILED, f"its worker, process {run.tags[WARM_TAG]}, is gone"
        )

    def dispose(self) -> None:
        """Hang up: each zygote ends when its workers have."""
        for _, zygote in self._zygotes.values():
            zygote.close()
        self._zygotes.clear()

    @property
    def _workers(self) -> RunWorkers:
        return RunWorkers(Path(self._instance.root_directory) / FOLDER)

    def _fork(
        self,
        run: DagsterRun,
        origin: JobPythonOrigin,
        location: GrpcServerCodeLocation,
        pointer: ModuleCodePointer,
    ) -> int:
        reference = self._instance.get_ref()
        arguments = serialize_value(
            ExecuteRunArgs(job_origin=origin, run_id=run.run_id, instance_ref=reference)
        )
        zygote = self._zygote(location, pointer, reference)
        try:
            return zygote.fork(run.run_id, arguments)
        except ZygoteError as error:
            self._discard(location.name, zygote)
            if isinstance(error, ZygoteRefusedError):
                self._leave_cold(location)
            # What it forked before it fell silent holds the run's lock by now, or never will.
            worker = self._workers.alive(run.run_id)
            if worker is None:
                raise
            return worker

    def _zygote(
        self, location: GrpcServerCodeLocation, pointer: ModuleCodePointer, reference: InstanceRef
    ) -> ZygoteProcess:
        with self._starting:
            server_id, zygote = self._zygotes.get(location.name, ("", None))
            if zygote is not None and server_id == location.server_id:
                return zygote
            if zygote is not None:
                zygote.close()
                del self._zygotes[location.name]
            server_id, until = self._cold.get(location.name, ("", 0.0))
            if server_id == location.server_id and monotonic() < until:
                raise ZygoteRefusedError("this code could not be warm a short while ago")
            try:
                zygote = ZygoteProcess(
                    self._workers.folder,
                    (pointer.module, *_storage_modules(reference)),
                    pointer.working_directory,
                )
            except ZygoteRefusedError:
                self._leave_cold(location)
                raise
            self._zygotes[location.name] = (location.server_id, zygote)
            return zygote

    def _leave_cold(self, location: GrpcServerCodeLocation) -> None:
        self._cold[location.name] = (location.server_id, monotonic() + COLD_SECONDS)

    def _discard(self, name: str, zygote: ZygoteProcess) -> None:
        zygote.kill()
        with self._starting:
            if self._zygotes.get(name, ("", None))[1] is zygote:
                del self._zygotes[name]


def _location(context: LaunchRunContext) -> GrpcServerCodeLocation | None:
    origin = context.dagster_run.remote_job_origin
    if context.workspace is None or origin is None:
        return None
    name = origin.repository_origin.code_location_origin.location_name
    location = context.workspace.get_code_location(name)
    return location if isinstance(location, GrpcServerCodeLocation) else None


def _runs_here(location: GrpcServerCodeLocation, origin: JobPythonOrigin) -> bool:
    repository = origin.repository_origin
    return (
        location.client.host in HERE
        and repository.container_image is None
        and repository.executable_path == sys.executable
    )


def _storage_modules(reference: InstanceRef) -> list[str]:
    data = (
        reference.run_storage_data,
        reference.event_storage_data,
        reference.local_artifact_storage_data,
        reference.compute_logs_data,
        reference.custom_instance_class_data,
    )
    return sorted({item.module_name for item in data if item is not None})
