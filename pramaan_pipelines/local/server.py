"""What the embedded servers have in common: one start at a time, a port, a life, an end.

Promises: `start` may be called by anyone, any number of times and at once, and ends with one server
that answers; a server that was killed is started again; it outlives its caller and the terminal.
Never: takes a stranger on the remembered port for the server, or reports a dead one as running.
"""

import os
import shutil
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from pramaan_pipelines.local.errors import LocalStackError
from pramaan_pipelines.local.files import (
    exclusive,
    make_folder,
    open_private,
    read_or_none,
    write_atomically,
)
from pramaan_pipelines.local.processes import (
    Steps,
    choose_port,
    end,
    holder,
    is_held,
    port_is_free,
)

LAUNCHES = 5
# How long children of a killed server may take to notice before they are ended too.
ORPHAN_SECONDS = 5.0
LOG_LIMIT = 5_000_000


class Server(ABC):
    """One server and its folder. Constructing it touches nothing."""

    title: ClassVar[str]
    ending: ClassVar[Steps]
    start_seconds: ClassVar[float]
    own_group: ClassVar[bool]

    def __init__(self, root: Path) -> None:
        # Resolved, because the kernel names open files so.
        self.root = root.expanduser().resolve()

    @property
    def lock(self) -> Path:
        """The file that lives and dies locked with the server."""
        return self.root / "running.lock"

    @property
    def log(self) -> Path:
        """What the server printed."""
        return self.root / "server.log"

    @property
    def port(self) -> int | None:
        """The remembered port; None before the first start."""
        text = read_or_none(self.root / "port")
        return int(text) if text and text.isdecimal() else None

    def start(self) -> bool:
        """Make sure that the server runs and answers; tell whether this call started it.

        Raises:
            LocalStackError: it cannot be started; the text says why and what to do.
        """
        make_folder(self.root)
        with exclusive(self.root / "start.lock"):
            self._prepare()
            started = self._bring_up()
            self._furnish()
        return started

    def stop(self) -> None:
        """End the server, if it runs, and keep its data."""
        if self.root.is_dir():
            with exclusive(self.root / "start.lock"):
                self._end()

    def wipe(self) -> None:
        """End the server and delete all that it kept."""
        if self.root.is_dir():
            with exclusive(self.root / "start.lock"):
                self._end()
                for folder in (*self._folders_elsewhere(), self.root):
                    shutil.rmtree(folder)

    def is_running(self) -> bool:
        """Tell whether the server lives and answers."""
        return is_held(self.lock) and self._answers()

    @abstractmethod
    def _launch(self, port: int) -> None:
        """Start the process, detached, with `lock` inherited; do not wait for it to answer."""

    @abstractmethod
    def _answers(self) -> bool:
        """Tell whether this very server, and no other, answers on the remembered port."""

    @abstractmethod
    def _pid_hint(self) -> int | None:
        """Return what may be the id of the main process."""

    @abstractmethod
    def _prepare(self) -> None:
        """Do what must precede a look at the server."""

    @abstractmethod
    def _furnish(self) -> None:
        """Do what must follow a start, also of a server that ran already."""

    def _folders_elsewhere(self) -> list[Path]:
        """Return folders of this server outside `root`."""
        return []

    def _end(self) -> None:
        if is_held(self.lock):
            end(self.lock, self._pid_hint(), self.ending, groups=self.own_group)

    def _bring_up(self) -> bool:
        begun = time.monotonic()
        launches = 0
        led_at = begun
        while time.monotonic() - begun < self.start_seconds:
            if is_held(self.lock):
                if self._answers():
                    return launches > 0
                if holder(self.lock, self._pid_hint()) is not None:
                    led_at = time.monotonic()
                if self.port is None or time.monotonic() - led_at > ORPHAN_SECONDS:
                    self._end()
            elif self._may_launch(launches):
                self._launch(self._settle_port())
                launches += 1
                led_at = time.monotonic()
                continue
            else:
                raise LocalStackError(f"{self.title} ended while starting.\n{self._tail()}")
            time.sleep(0.02)
        raise LocalStackError(
            f"{self.title} runs but did not answer within {self.start_seconds:.0f} s. Try again if "
            f"it is still recovering, else `pramaan down` and `pramaan up`.\n{self._tail()}"
        )

    def _may_launch(self, launches: int) -> bool:
        # A second try is for a port that was free again when we looked; more are for one that is
        # taken: then the next launch moves.
        taken = self.port is not None and not port_is_free(self.port)
        return launches < (LAUNCHES if taken else 2)

    def _settle_port(self) -> int:
        port = self.port
        if port is None or not port_is_free(port):
            port = choose_port()
            write_atomically(self.root / "port", f"{port}\n")
        return port

    def _open_log(self) -> int:
        too_long = self.log.exists() and self.log.stat().st_size > LOG_LIMIT
        return open_private(self.log, os.O_WRONLY | os.O_APPEND | (os.O_TRUNC if too_long else 0))

    def _tail(self) -> str:
        lines = (read_or_none(self.log) or "").splitlines()
        return "\n".join([f"The end of {self.log}:", *lines[-15:]])
