"""Dagster's processes as children of ours, ended with all that they started.

Promises: a child runs in a session of its own, is asked to end by SIGINT, and killed with its whole
group when it does not; what it prints goes where it was told.
Never: leaves one running.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

STOP_SECONDS: Final = 20.0
PR_SET_PDEATHSIG: Final = 1


@contextmanager
def dagster(
    *arguments: str,
    module: str = "dagster",
    environment: Mapping[str, str],
    folder: Path,
    output: IO[bytes] | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `python -m MODULE ARGUMENTS` while the block runs.

    Args:
        arguments: of its command line.
        module: Dagster's command line, or its daemon.
        environment: all of the child's environment.
        folder: where it runs.
        output: where it prints; None is our own output.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env=dict(environment),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - one call of the C library, no lock
        # Popen from a terminal's foreground: without a session of its own the child would get the
        # terminal's SIGINT and ours.
        start_new_session=True,
    )
    try:
        yield child
    finally:
        end(child)


def _end_with_parent() -> None:
    """Ask the kernel for a SIGINT when our parent dies, however it dies; Linux only.

    https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)


def end(child: "subprocess.Popen[bytes]") -> None:
    """Ask `child` to end, then see to it."""
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(STOP_SECONDS)
    # Whatever became of the child, nothing of its group stays.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
