"""Where a soak takes place: its settings, its tables past row level security, and its journal.

The journal is one file that every process appends to, a line at a time, so that what was written
outlives the kill that comes right after it.
"""

import json
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg

from pramaan_pipelines.settings import Settings

LEASE_SECONDS: Final = 5
VISIBILITY_SECONDS: Final = 10
MAX_TRIES: Final = 3
ENVIRONMENT: Final = "local"
DOCUMENT_TABLE: Final = "ops.document_ingest_outbox"
DOMAIN_TABLE: Final = "ops.domain_event_outbox"


@dataclass(frozen=True)
class Journal:
    """What the workers tell.

    Attributes:
        folder: where it is kept; the file `calm` in it says that the faults have ended.
    """

    folder: Path

    def tell(self, kind: str, **what: object) -> None:
        """Append one line, in one call, so that it is there whole or not at all."""
        line = json.dumps({"kind": kind, **what}, default=str) + "\n"
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def read(self, start: int = 0) -> tuple[list[dict[str, Any]], int]:
        """Return the lines from the byte `start` on, and where the next reading starts."""
        if not self._path.exists():
            return [], start
        with self._path.open("rb") as file:
            file.seek(start)
            whole = file.read()
        end = whole.rfind(b"\n") + 1
        return [json.loads(line) for line in whole[:end].splitlines()], start + end

    @property
    def calm(self) -> bool:
        """Whether the faults have ended."""
        return (self.folder / "calm").exists()

    def end_the_faults(self) -> None:
        """Tell every worker to do no more harm by itself."""
        (self.folder / "calm").touch()

    @property
    def _path(self) -> Path:
        return self.folder / "journal.jsonl"


@dataclass
class Firms:
    """Whose matters there are: two that consent, one that never does, one that wavers."""

    steady: list[UUID] = field(default_factory=lambda: [uuid4(), uuid4()])
    never: UUID = field(default_factory=uuid4)
    wavering: UUID = field(default_factory=uuid4)

    def __iter__(self) -> Iterator[UUID]:
        return iter([*self.steady, self.never, self.wavering])


@dataclass
class Site:
    """The stack as the one that runs the soak has it.

    Attributes:
        settings: of the stack.
        god: a superuser's connection.
        journal: what the workers tell.
        chance: what is drawn by chance, from the soak's seed.
        firms: whose matters there are.
    """

    settings: Settings
    god: psycopg.Connection[tuple[Any, ...]]
    journal: Journal
    chance: random.Random
    firms: Firms = field(default_factory=Firms)

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return what `query` finds."""
        return self.god.execute(query, parameters).fetchall()

    def one(self, query: str, *parameters: object) -> Any:
        """Return the single value that `query` finds."""
        ((value,),) = self.rows(query, *parameters)
        return value

    def set_consent(self, firm: UUID, *, granted: bool) -> None:
        """Grant or withdraw."""
        self.god.execute(
            "INSERT INTO firm_inference_egress_consents VALUES (%s, %s) "
            "ON CONFLICT (firm_id) DO UPDATE SET granted = excluded.granted",
            [firm, granted],
        )

    def found(self) -> None:
        """Make the firms."""
        for firm in self.firms:
            self.god.execute("INSERT INTO firms (id, name) VALUES (%s, 'A firm')", [firm])
            self.set_consent(firm, granted=firm != self.firms.never)


def chance_of(seed: int) -> random.Random:
    """Return what draws by `seed`."""
    return random.Random(seed)  # noqa: S311 - chance, not secrets


def say(what: str) -> None:
    """Tell how far it is, beside the ledger."""
    print(what, file=sys.stderr, flush=True)  # noqa: T201
