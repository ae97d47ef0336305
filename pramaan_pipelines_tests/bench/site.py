"""Where everything is measured: one Postgres, a sink, and a database for each contender.

Promises: the server keeps what it acknowledged (fsync on), with the settings of `make dev`; every
contender has a copy of the same migrated database to itself.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import psycopg
from pydantic import SecretStr

from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import APP, OWNER
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store import migrate
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.support.world import World

REPOSITORY = Path(__file__).parents[2]
TEMPLATE = "template_at_head"
QUEUE_URL = "http://sqs.us-east-1.localhost/000000000000/bench"
BUS = "bench"


class Spoken:
    """A process that is spoken to line by line.

    Args:
        command: what to run.
        environment: beside the one of this process.
    """

    def __init__(self, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self._command = command
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **(environment or {})},
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def hear(self) -> Any:
        """Return the value of the next line that it says.

        Raises:
            RuntimeError: it ended instead.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(self._command)} ended with {self._process.wait()}")
        return json.loads(line)

    def ask(self, line: str) -> Any:
        """Say one line, and return the value of the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self.hear()

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@dataclass(frozen=True)
class Ground:
    """A contender's own database.

    Attributes:
        url: as the service role.
        owner_url: as the owner, for a peer that makes its own table.
        world: a firm in it, and a superuser's connection.
    """

    url: str = field(repr=False)
    owner_url: str = field(repr=False)
    world: World


@dataclass
class Site:
    """What the lines of the table share.

    Attributes:
        folder: for what is kept from one `make bench` to the next, such as the peers.
        quick: measure less, for an answer within two minutes.
        server: the Postgres.
        sink: the stand-in for SQS and EventBridge.
        sink_url: its address.
    """

    folder: Path
    quick: bool
    server: EmbeddedPostgres
    sink: Spoken
    sink_url: str
    ending: ExitStack

    @property
    def rounds(self) -> int:
        """How often each contender goes."""
        return 2 if self.quick else 5

    @contextmanager
    def part(self) -> Iterator[Self]:
        """Give the site for a while: what is started in it ends with it, connections and all."""
        with ExitStack() as ending:
            yield replace(self, ending=ending)

    def ground(self) -> Ground:
        """Make a database at head that nobody else uses."""
        name = f"bench_{uuid4().hex[:12]}"
        with psycopg.connect(self.server.admin_url(), autocommit=True) as god:
            god.execute(f'CREATE DATABASE "{name}" TEMPLATE "{TEMPLATE}" OWNER {OWNER}')
        self.ending.callback(self._drop, name)
        url = self.server.url(APP, name)
        database = Database.connect(url)
        self.ending.callback(database.close)
        god = psycopg.connect(self.server.admin_url(name), autocommit=True)
        self.ending.callback(god.close)
        return Ground(url, self.server.url(OWNER, name), World.build(database, god))

    def spoken(self, command: Sequence[str], environment: dict[str, str] | None = None) -> Spoken:
        """Start a process that ends with the bench."""
        process = Spoken(command, environment)
        self.ending.callback(process.close)
        return process

    def settings(self, ground: Ground) -> Settings:
        """Return the settings by which the relays reach `ground` and the sink."""
        return Settings.model_validate(
            {
                "pramaan_environment": "test",
                "database_url": ground.url,
                "aws_endpoint_url": self.sink_url,
                "aws_region": "us-east-1",
                "document_ingestion_queue_url": QUEUE_URL,
                "document_registration_queue_url": QUEUE_URL,
                "framer_events_queue_url": QUEUE_URL,
                "event_bus_name": BUS,
            }
        )

    def _drop(self, name: str) -> None:
        with psycopg.connect(self.server.admin_url(), autocommit=True) as god:
            god.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def site(state: Path, folder: Path, *, quick: bool, durable: bool = True) -> Iterator[Site]:
    """Bring up what the lines share, and take it down again.

    Args:
        state: a folder that goes with the bench.
        folder: what is kept.
        quick: as in `Site`.
        durable: False for a test of the bench, which measures nothing.
    """
    _keep_the_machine_out()
    with ExitStack() as ending:
        server = EmbeddedPostgres(state / "postgres", durable=durable)
        ending.callback(server.wipe)
        server.start()
        with psycopg.connect(server.admin_url(), autocommit=True) as god:
            god.execute(f'CREATE DATABASE "{TEMPLATE}" OWNER {OWNER}')
        migrate.upgrade(SecretStr(server.url(OWNER, TEMPLATE)))
        sink = Spoken([sys.executable, "-m", "pramaan_pipelines_tests.bench.sink"])
        ending.callback(sink.close)
        yield Site(folder, quick, server, sink, f"http://127.0.0.1:{sink.hear()}", ending)


def _keep_the_machine_out() -> None:
    for name in [*os.environ]:
        if name.startswith(("AWS_", "PG")) or name.lower() in Settings.model_fields:
            del os.environ[name]
    os.environ.update(
        AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench", AWS_EC2_METADATA_DISABLED="true"
    )
