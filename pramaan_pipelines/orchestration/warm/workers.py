"""Which run workers live: a file per run, locked by its worker for as long as it lives.

Promises: whoever shares the instance's folder can tell, also after the daemon that launched the run
is gone; a lock ends with its holder, however it ends, and no process id is taken for another's.
Never: leaves a file behind for a run that nobody works on, past the next look.
"""

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class RunWorkers:
    """The workers of one instance on this machine.

    Args:
        folder: of the instance; made when the first worker comes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def registered(self, run_id: str) -> Iterator[int]:
        """Lock the run's file while the block runs; a child forked in it holds the lock on.

        Yields:
            the descriptor, to which the worker's process id is to be written.

        Raises:
            BlockingIOError: the run has a worker already.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._file(run_id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield handle
        finally:
            os.close(handle)

    def alive(self, run_id: str) -> int | None:
        """Return the process id of the run's worker, or None where it has none that lives."""
        try:
            handle = os.open(self._file(run_id), os.O_RDWR | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(os.read(handle, 20) or 0)
        else:
            self.forget(run_id)
            return None
        finally:
            os.close(handle)

    def interrupt(self, run_id: str) -> bool:
        """Ask the run's worker to end, as Dagster does; False where it has none that lives."""
        worker = self.alive(run_id)
        if not worker:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGINT)
        return True

    def forget(self, run_id: str) -> None:
        """Remove the file of a run whose worker has ended."""
        self._file(run_id).unlink(missing_ok=True)

    def _file(self, run_id: str) -> Path:
        return self.folder / run_id
