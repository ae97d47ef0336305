"""Whether a server lives, and how to end it, without trusting a process id.

Promises: a server is alive exactly while some process of it holds the lock that it inherited at its
start; the kernel frees that lock with the last of them, whatever killed it. A signal goes only to a
process seen to hold the lock.
Never: signals a process because a file names its id; ids are hints that get checked.
"""

import fcntl
import importlib.util
import os
import random
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pramaan_pipelines.local.errors import LocalStackError
from pramaan_pipelines.local.files import open_private

if TYPE_CHECKING:
    import psutil

LOCALHOST = "127.0.0.1"
# Below the range from which Linux and macOS take ports of outgoing connections, so that a
# remembered port is rarely taken at the next start.
PORTS = range(20_000, 32_000)
# A child sees these and nothing else: variables such as PGDATA, AUTH or PERSIST_STATE in a
# developer's shell would change what the servers do.
INHERITED = (
    "PATH",
    "HOME",
    "PYTHONPATH",
    "PYTHONHOME",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
)

Steps = Sequence[tuple[signal.Signals, float]]


def child_environment(**extra: str) -> dict[str, str]:
    """Return the environment of a server: what it needs to run at all, and `extra`."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {"PATH": os.defpath, **kept, **extra}


def is_held(lock: Path) -> bool:
    """Tell whether a process holds `lock`."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError as error:
        raise LocalStackError(f"{lock} belongs to another user. Run this as that user.") from error
    try:
        # Shared, so that two who look at the same time do not take each other for the server.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def inheritable_lock(lock: Path) -> Iterator[int]:
    """Take `lock` and give its descriptor, which a child that inherits it keeps locked."""
    descriptor = open_private(lock, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # waits at most for one that looks
        yield descriptor
    finally:
        os.close(descriptor)


def holder(lock: Path, hint: int | None) -> "psutil.Process | None":
    """Return the process with the id `hint`, if it holds `lock`."""
    if hint is None:
        return None
    import psutil  # noqa: PLC0415 - only the extra `local` has it, and `status` runs without

    with suppress(psutil.Error):
        process = psutil.Process(hint)
        if _has_open(process, lock):
            return process
    return None


def end(lock: Path, hint: int | None, steps: Steps, *, groups: bool) -> None:
    """Send the signals of `steps` in turn until nobody holds `lock`.

    A signal goes to the process `hint`; where that one is gone, or for a kill, to every holder.

    Raises:
        LocalStackError: somebody still holds it.
    """
    for number, seconds in steps:
        main = None if number == signal.SIGKILL else holder(lock, hint)
        for process in [main] if main else _holders(lock):
            _send(process, number, group=groups)
        deadline = time.monotonic() + seconds
        while is_held(lock):
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        else:
            return
    raise LocalStackError(
        f"A server that holds {lock} does not end. If another user started it, run this as them."
    )


def must_be_able_to_end() -> None:
    """Make sure, before a server is started, that it could be ended again.

    Raises:
        LocalStackError: psutil is missing; only the extra `local` has it.
    """
    if importlib.util.find_spec("psutil") is None:
        raise LocalStackError(
            "psutil is not installed. Install the extra `local` (pip install "
            "'pramaan-pipelines[local]'), or name a database and an endpoint of your own in "
            "DATABASE_URL and AWS_ENDPOINT_URL."
        )


def port_is_free(port: int) -> bool:
    """Tell whether a server could listen on `port` of this machine now."""
    with socket.socket() as probe:
        # Connections of an ended server that linger are no obstacle to a server, nor to us.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOCALHOST, port))
        except OSError:
            return False
    return True


def choose_port() -> int:
    """Return a port that is free now."""
    for port in random.SystemRandom().sample(PORTS, 100):
        if port_is_free(port):
            return port
    raise LocalStackError(f"No free port among {PORTS.start} to {PORTS.stop - 1} on {LOCALHOST}.")


def _holders(lock: Path) -> "list[psutil.Process]":
    import psutil  # noqa: PLC0415 - as above

    return [process for process in psutil.process_iter() if _has_open(process, lock)]


def _has_open(process: "psutil.Process", lock: Path) -> bool:
    import psutil  # noqa: PLC0415 - as above

    with suppress(psutil.Error, OSError):
        return process.pid != os.getpid() and any(
            file.path == str(lock) for file in process.open_files()
        )
    return False


def _send(process: "psutil.Process", number: signal.Signals, *, group: bool) -> None:
    import psutil  # noqa: PLC0415 - as above

    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        if group and os.getpgid(process.pid) != os.getpgrp():
            os.killpg(os.getpgid(process.pid), number)
        else:
            process.send_signal(number)
