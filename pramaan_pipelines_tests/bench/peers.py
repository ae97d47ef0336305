"""Other outbox relays, installed from their packages into environments of their own.

Promises: pinned; nothing of theirs gets into the project's environment, nor the reverse; each
drains rows with the bodies that ours has, to the same sink, with as many workers.
Never: changed: each is used by the way that its own documentation shows for a sink of one's own.

What each is set to stands in docs/performance.md, with the reasons.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST
from pramaan_pipelines_tests.bench.drains import WORKER_MODULE, Drainer
from pramaan_pipelines_tests.bench.site import QUEUE_URL, Ground, Site

BOTO3: Final = "boto3==1.43.106"  # as in the project's lock
FASTSTREAM: Final = ("faststream-outbox[asyncpg]==0.19.0", "aiobotocore==3.10.0")
OUTBOX_SQS: Final = (
    "outbox-sqs[aws]==0.1.1",
    BOTO3,
    "sqlalchemy==2.0.58",
    "psycopg[binary]==3.3.9",
)
NODE: Final = ("pg-transactional-outbox@0.5.7", "@aws-sdk/client-sqs@3.1175.0")

HEADERS: Final = """json_build_object('event_type', event_type, 'traceparent', traceparent,
                                     'tracestate', tracestate)"""


@dataclass(frozen=True)
class Peer:
    """A relay that somebody else wrote, ready to run.

    Attributes:
        name: with its version.
        command: runs its worker.
        fill: moves the rows that were written into its table.
        left: SQL that counts what it has not marked.
        rows: how many it drains in a second or two.
    """

    name: str
    command: tuple[str, ...]
    fill: Callable[[Ground], None]
    left: str
    rows: int = 1_000

    def drainer(self, site: Site, rows: int | None, delay: float) -> Drainer:
        """Make a contender of it."""
        return Drainer(
            *(self.name, site, DOCUMENT_INGEST, "sqs", rows or self.rows, delay),
            command=self.command,
            fill=self.fill,
            left=self.left,
        )


def installed(folder: Path) -> list[Peer]:
    """Install what is not there yet, and return the peers; where Node is not, without its own.

    Args:
        folder: where the environments stand.
    """
    found = [
        Peer(
            "faststream-outbox 0.19.0",
            _in_venv(folder / "faststream-outbox", FASTSTREAM, "faststream_outbox_relay"),
            fill_faststream,
            "SELECT count(*) FROM public.outbox",
        ),
        Peer(
            "outbox-sqs 0.1.1",
            _in_venv(folder / "outbox-sqs", OUTBOX_SQS, "outbox_sqs_relay"),
            fill_outbox_sqs,
            "SELECT count(*) FROM public.outbox_events WHERE status <> 'published'",
        ),
    ]
    if shutil.which("npm"):
        script = _in_prefix(folder / "pg-transactional-outbox", "pg_transactional_outbox_relay.mjs")
        found.append(
            Peer(
                "pg-transactional-outbox 0.5.7",
                ("node", str(script)),
                fill_pg_transactional_outbox,
                "SELECT count(*) FROM public.trx_outbox WHERE processed_at IS NULL",
                rows=150,
            )
        )
    return found


def fill_faststream(ground: Ground) -> None:
    """Write its rows as its `publish` does: the body as text, the headers beside it."""
    _fill(
        ground,
        "public.outbox",
        "(queue, payload, headers)",
        f"""'bench', convert_to({DOCUMENT_INGEST.outbox.body}, 'UTF8'),
            {HEADERS}::jsonb || '{{"content-type": "text/plain"}}'
            || jsonb_build_object('correlation_id', event_id)""",
    )


def fill_outbox_sqs(ground: Ground) -> None:
    """Write its rows as its `save` does."""
    _fill(
        ground,
        "public.outbox_events",
        "(destination, payload, headers, status, attempts, available_at, created_at)",
        f"""'{QUEUE_URL}', {DOCUMENT_INGEST.outbox.body}, {HEADERS}::text, 'pending', 0,
            now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC'""",
    )


def fill_pg_transactional_outbox(ground: Ground) -> None:
    """Write its rows as its message storage does; `parallel`, or it sends one at a time."""
    _fill(
        ground,
        "public.trx_outbox",
        "(id, aggregate_type, aggregate_id, message_type, concurrency, payload, metadata)",
        f"""event_id, 'document', document_id::text, event_type, 'parallel',
            to_jsonb({DOCUMENT_INGEST.outbox.body}), {HEADERS}::jsonb""",
    )


def _fill(ground: Ground, table: str, columns: str, values: str) -> None:
    god = ground.world.god
    god.execute(f"TRUNCATE {table}")
    god.execute(
        f"INSERT INTO {table} {columns} SELECT {values} FROM {DOCUMENT_INGEST.outbox.table} "  # noqa: S608
        "ORDER BY id"
    )


def _in_venv(folder: Path, packages: tuple[str, ...], module: str) -> tuple[str, ...]:
    python = folder / "bin" / "python"
    if _is_new(folder, packages):
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(str(python), "-m", "pip", "install", "--quiet", *packages)
        _is_made(folder, packages)
    return (str(python), "-m", WORKER_MODULE + module)


def _in_prefix(folder: Path, script: str) -> Path:
    source = Path(__file__).parent / "workers" / script
    if _is_new(folder, NODE):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _run(
            "npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder), *NODE
        )
        _is_made(folder, NODE)
    # Node looks for packages beside the program.
    return Path(shutil.copy(source, folder / script))


def _is_new(folder: Path, packages: tuple[str, ...]) -> bool:
    made = folder / "made"
    return not made.exists() or made.read_text() != _mark(packages)


def _is_made(folder: Path, packages: tuple[str, ...]) -> None:
    (folder / "made").write_text(_mark(packages))


def _mark(packages: tuple[str, ...]) -> str:
    return hashlib.sha256(json.dumps([sys.version, *packages]).encode()).hexdigest()


def _run(*command: str) -> None:
    quiet = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONPATH": ""}
    subprocess.run(command, check=True, env={**os.environ, **quiet}, stdout=subprocess.DEVNULL)
