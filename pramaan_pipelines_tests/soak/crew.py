"""The processes of a soak: started from a server that has everything imported, killed by chance.

A new worker is a fork of that server, which costs milliseconds where an import of Dagster would
cost seconds.
"""

import multiprocessing
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pramaan_pipelines.outbox.lanes import LANES
from pramaan_pipelines_tests.soak.workers import work

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess

STRENGTH: Final[Mapping[str, int]] = {
    **{lane.name: 2 for lane in LANES},
    "framer": 4,
    "healer": 2,
    "sweeper": 2,
    "agent": 2,
    "collector": 1,
}
DANGER: Final[Mapping[str, float]] = {"framer": 3.0, "healer": 2.0}
"""Those whose deaths matter most die most often."""


class Crew:
    """All workers, each replaced when it is gone.

    Attributes:
        chance: draws who, and what each worker draws from.
        kills: how many were killed, by kind.
        ended: how many ended by themselves, which none should.
    """

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self.chance = chance
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["pramaan_pipelines_tests.soak.workers"])
        self._workers: list[tuple[str, ForkServerProcess]] = []
        self.kills: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()

    def fill(self) -> None:
        """Bring every kind to its strength."""
        gone = [(kind, process) for kind, process in self._workers if not process.is_alive()]
        for kind, process in gone:
            self._workers.remove((kind, process))
            self.ended[kind] += process.exitcode != -9
            process.close()
        there = Counter(kind for kind, _ in self._workers)
        for kind, strength in STRENGTH.items():
            for _ in range(strength - there[kind]):
                arguments = (kind, str(self._folder), self.chance.getrandbits(32))
                process = self._context.Process(target=work, args=arguments, daemon=True)
                process.start()
                self._workers.append((kind, process))

    def kill_one(self) -> None:
        """Kill one by chance, with SIGKILL."""
        weights = [DANGER.get(kind, 1.0) for kind, _ in self._workers]
        ((kind, process),) = self.chance.choices(self._workers, weights)
        process.kill()
        process.join(5)
        self.kills[kind] += 1

    def dismiss(self) -> None:
        """Kill all that are left; it is over."""
        for _, process in self._workers:
            process.kill()
        for _, process in self._workers:
            process.join(5)
        self._workers.clear()
