"""`pramaan dev`: the whole system on one machine, until Ctrl-C.

Promises: everything that it started ends with it; what had been running before goes on.
Never: touches a database or an account that it did not start, beyond reading and writing as the
service does.
"""

import fcntl
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Final
from urllib.error import URLError
from urllib.request import urlopen

from pramaan_pipelines.local.children import dagster
from pramaan_pipelines.local.embedded import make_ready
from pramaan_pipelines.local.errors import LocalStackError
from pramaan_pipelines.local.home import dagster_home
from pramaan_pipelines.local.seed import seed
from pramaan_pipelines.local.stack import POSTGRES, down
from pramaan_pipelines.local.stream import PAUSE_SECONDS, stream
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.export import flush
from pramaan_pipelines.telemetry.provider import Telemetry

if TYPE_CHECKING:
    from subprocess import Popen

DEFAULT_PORT: Final = 3000
START_SECONDS: Final = 120.0


def dev(
    state: Path,
    env_file: Path,
    environ: Mapping[str, str],
    *,
    port: int | None = None,
    pause_seconds: float = PAUSE_SECONDS,
) -> int:
    """Run until SIGINT or SIGTERM; returns the exit code.

    Args:
        state: the state folder.
        env_file: the `.env` that plain `dagster dev` reads too.
        environ: the user's environment.
        port: of the UI; None takes 3000, or a free one where that is taken.
        pause_seconds: between two writes of the sample stream.
    """
    stop = _stop_on_signals()
    with ExitStack() as ending:
        ending.enter_context(_only_one(state))
        home = dagster_home(state)
        _in_the_checkout(home.workspace.parent)
        ui = _port(port)
        _say("Starting what is not given of Postgres and AWS, and bringing it up to date ...")
        ready = make_ready(state, env_file, environ)
        if ready.stack.started:
            ending.callback(down, state)
        settings = Settings.load()
        database = Database.connect(settings.database_url)
        ending.callback(database.close)
        ours = POSTGRES in ready.stack.embedded
        if ours:
            seed(database, settings.pramaan_environment)
        else:
            _say("DATABASE_URL is given: no sample data is written to it, and none will flow.")

        log = state / "dagster.log"
        child = ending.enter_context(
            dagster(
                *("dev", "-w", str(home.workspace), "-h", "127.0.0.1", "-p", str(ui)),
                environment={
                    "PRAMAAN_WAKE_UP": "true",
                    **os.environ,
                    "DAGSTER_HOME": str(home.folder),
                },
                folder=home.workspace.parent,
                output=ending.enter_context(log.open("wb")),
            )
        )
        url = f"http://127.0.0.1:{ui}"
        _say("Starting Dagster ...")
        if _answers(url, child, stop):
            _say(f"\n  Pramaan is running: {url}/asset-groups and {url}/runs")
            _say(f"  Dagster's log is {log}. Ctrl-C ends everything.\n")
            telemetry = Telemetry.current(settings.pramaan_environment)
            ending.callback(flush)
            feeder = Thread(
                target=stream,
                args=(database, telemetry.tracer, settings.pramaan_environment, stop),
                kwargs={"pause_seconds": pause_seconds},
            )
            if ours:
                feeder.start()
                ending.callback(feeder.join)
                ending.callback(stop.set)
        while not stop.wait(0.5):
            if child.poll() is not None:
                _say(f"Dagster ended by itself; the end of {log} says why.")
                return 1
        _say("Ending Dagster and what was started with it ...")
    return 0


def _stop_on_signals() -> Event:
    stop = Event()

    def set_stop(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, set_stop)
    return stop


@contextmanager
def _only_one(state: Path) -> Iterator[None]:
    """Hold the state folder: two daemons on one instance would do everything twice."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / "dev.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LocalStackError(
                f"`pramaan dev` is running on {state} already. End that one (Ctrl-C) first, or "
                "give this one a folder of its own by PRAMAAN_STATE_DIR."
            ) from None
        yield


def _in_the_checkout(checkout: Path) -> None:
    # Dagster reads the .env of the folder that it runs in: it must be the one written here.
    if Path.cwd() != checkout:
        raise LocalStackError(f"run `pramaan dev` in the checkout: cd {checkout}")


def _port(wanted: int | None) -> int:
    """Return a port that is free now: `wanted`, else 3000, else any.

    Raises:
        LocalStackError: `wanted` is taken.
    """
    for number in (wanted,) if wanted else (DEFAULT_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", number))
            except OSError:
                continue
            port: int = probe.getsockname()[1]
            return port
    raise LocalStackError(f"port {wanted} of 127.0.0.1 is taken; give another by --port")


def _answers(url: str, child: "Popen[bytes]", stop: Event) -> bool:
    deadline = monotonic() + START_SECONDS
    while child.poll() is None and monotonic() < deadline and not stop.wait(0.5):
        try:
            with urlopen(f"{url}/server_info", timeout=2):  # noqa: S310 - our own child
                return True
        except (URLError, OSError):
            continue
    return False


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
