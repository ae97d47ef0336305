"""The process that imports once and forks a worker for each run.

`python -m pramaan_pipelines.orchestration.warm.zygote SOCKET FOLDER MODULE...` is started by the
launcher, and told of runs over a socket, one JSON line each; it answers with the worker's
process id. A worker does what `dagster api execute_run` does, as a hosted launcher's would.

Promises: it is single-threaded and holds no connection when it forks; a worker that dies is
reported at once, as Dagster's code server does; it ends when its launcher has and its workers have.
Never: runs anything of a run itself.
"""

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from dagster import DagsterInstance
from dagster._cli.api import execute_run_command
from dagster._grpc.types import ExecuteRunArgs
from dagster._serdes import deserialize_value
from dagster._utils import get_run_crash_explanation

from pramaan_pipelines.errors import PramaanError
from pramaan_pipelines.messaging.clients import preload
from pramaan_pipelines.orchestration.warm.workers import RunWorkers

READY: Final = "ready"

EVERY_RUN_IMPORTS: Final = (
    "dagster._core.execution.plan.active",
    "dagster._core.executor.in_process",
    "dagster._core.instance.factory",
    "dagster._core.storage.sqlite_storage",
    "dagster._core.utility_ops",
    "dagster._core.workspace.autodiscovery",
    "encodings.idna",
    "psycopg2",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.postgresql.psycopg2",
    "psycopg",
    "upath.implementations.local",
)
"""What nobody imports until a run is under way: a third of what a worker would do otherwise. One
that is not there, or is called otherwise by another version, costs no more than its time."""


class ZygoteThreadsError(PramaanError):
    """An import of the code location started a thread: find it, and let it start later."""


@dataclass
class Zygote:
    """Serves one launcher until it hangs up.

    Args:
        channel: the socket to the launcher.
        workers: where the workers are registered.
    """

    channel: socket.socket
    workers: RunWorkers
    children: dict[int, tuple[str, str]] = field(default_factory=dict)
    reporters: set[int] = field(default_factory=set)

    def serve(self) -> None:
        """Fork a worker per request; return when the launcher is gone and all workers are."""
        wake, waker = socket.socketpair()
        for end in (wake, waker):
            end.settimeout(0)
        signal.set_wakeup_fd(waker.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        lines = self.channel.makefile("r")
        with selectors.DefaultSelector() as selector:
            selector.register(self.channel, selectors.EVENT_READ)
            selector.register(wake, selectors.EVENT_READ)
            listening = True
            while listening or self.children or self.reporters:
                for key, _ in selector.select():
                    if key.fileobj is wake:
                        with contextlib.suppress(BlockingIOError):
                            wake.recv(4096)
                    elif line := lines.readline():
                        self._launch(json.loads(line))
                    else:
                        listening = False
                        selector.unregister(self.channel)
                self._reap()

    def _launch(self, request: dict[str, str]) -> None:
        run_id, arguments = request["run_id"], request["arguments"]
        try:
            only_one_thread()
            with self.workers.registered(run_id) as handle:
                pid = self._fork(partial(execute_run, arguments))
                os.ftruncate(handle, 0)
                os.pwrite(handle, str(pid).encode(), 0)
        except Exception as error:  # noqa: BLE001 - the launcher must hear of it, whatever it is
            self._answer({"error": f"{type(error).__name__}: {error}"})
            return
        self.children[pid] = (run_id, arguments)
        self._answer({"pid": pid})

    def _answer(self, answer: dict[str, Any]) -> None:
        # A launcher that is gone reads no answer; its run is under way all the same.
        with contextlib.suppress(OSError):
            self.channel.sendall(json.dumps(answer).encode() + b"\n")

    def _reap(self) -> None:
        while self.children or self.reporters:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.reporters.discard(pid)
            ended = self.children.pop(pid, None)
            if ended is None:
                continue
            run_id, arguments = ended
            self.workers.forget(run_id)
            code = os.waitstatus_to_exitcode(status)
            if code != 0:
                self.reporters.add(self._fork(partial(report_death, arguments, code)))

    def _fork(self, body: Callable[[], None]) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            self._become_a_worker()
            body()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001 - nothing may unwind into the zygote's own loop
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            # Tearing down what was only inherited would cost as much as the run itself.
            os._exit(code)

    def _become_a_worker(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Closed for good: else the launcher could not tell that the zygote is gone.
        os.close(self.channel.detach())


def only_one_thread() -> None:
    """Hold that a fork is safe: what another thread holds locked stays locked in a child.

    Raises:
        ZygoteThreadsError: an import started a thread.
    """
    names = sorted(thread.name for thread in threading.enumerate())
    if len(names) != 1:
        raise ZygoteThreadsError(f"threads run in the zygote, so that no fork is safe: {names}")


def execute_run(arguments: str) -> None:
    """Do what `dagster api execute_run ARGUMENTS` does."""
    execute_run_command.main(
        [arguments], prog_name="dagster api execute_run", standalone_mode=False
    )


def report_death(arguments: str, code: int) -> None:
    """Mark a run as failed whose worker died with exit code `code` before it could do so itself."""
    args = deserialize_value(arguments, ExecuteRunArgs)
    if args.instance_ref is None:
        return
    with DagsterInstance.from_ref(args.instance_ref) as instance:
        run = instance.get_run_by_id(args.run_id)
        if run is None or run.is_finished:
            return
        message = get_run_crash_explanation(f"Run worker of {args.run_id}", code)
        instance.report_engine_event(message, run)
        instance.report_run_failed(run)


def main(arguments: list[str]) -> int:
    """Import, tell the launcher, and serve."""
    number, folder, *modules = arguments
    channel = socket.socket(fileno=int(number))
    # A terminal's Ctrl-C is for the launcher: it hangs up, and the workers are told by Dagster.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in modules:
        importlib.import_module(module)
    for module in EVERY_RUN_IMPORTS:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    preload("sqs")
    gc.collect()
    gc.freeze()
    channel.sendall(json.dumps({READY: os.getpid()}).encode() + b"\n")
    Zygote(channel, RunWorkers(Path(folder))).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
