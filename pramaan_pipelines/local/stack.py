"""The embedded stack as a whole: up, down, status.

Promises: what the environment already names (DATABASE_URL, AWS_ENDPOINT_URL) is used and not
started; `up` twice is `up` once; `down` keeps the data and may come from any process.
Never: migrates or provisions: the command line composes that.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pramaan_pipelines.local.aws import EmbeddedAws
from pramaan_pipelines.local.envfile import EnvFile, read_env, remove_env, write_env
from pramaan_pipelines.local.files import make_folder
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.processes import is_held, must_be_able_to_end
from pramaan_pipelines.local.roles import APP, DATABASE, MAINTENANCE, OWNER
from pramaan_pipelines.local.server import Server

POSTGRES = "postgres"
AWS = "aws"
DATABASE_KEYS = ("DATABASE_URL", "MIGRATION_DATABASE_URL", "MAINTENANCE_DATABASE_URL")
AWS_KEYS = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
PROVISIONED_KEYS = (
    "DOCUMENT_INGESTION_QUEUE_URL",
    "DOCUMENT_REGISTRATION_QUEUE_URL",
    "FRAMER_EVENTS_QUEUE_URL",
    "EVENT_BUS_NAME",
)
# Written unless the user chose something else.
DEFAULTS = {
    "PRAMAAN_ENVIRONMENT": "local",
    "AWS_REGION": "us-east-1",
    "OTEL_PROPAGATORS": "xray,tracecontext",
}


@dataclass(frozen=True)
class Stack:
    """What `up` brought up, or found given. Values that hold a password stay out of `repr`.

    `embedded` are the parts that are ours, `started` those of them that this call started.
    """

    state: Path
    environment: str
    database_url: str = field(repr=False)
    migration_database_url: str | None = field(repr=False)
    maintenance_database_url: str | None = field(repr=False)
    aws_endpoint_url: str
    aws_region: str
    aws_access_key_id: str | None
    embedded: frozenset[str]
    started: frozenset[str]
    variables: Mapping[str, str] = field(repr=False)


class Row(NamedTuple):
    """One line of `status`."""

    part: str
    state: str
    where: str


def state_folder(environ: Mapping[str, str], start: Path) -> Path:
    """Return the state folder: PRAMAAN_STATE_DIR, else `.pramaan` in the project around `start`."""
    named = environ.get("PRAMAAN_STATE_DIR")
    if named:
        return Path(named).expanduser().resolve()
    start = start.resolve()
    for folder in (start, *start.parents):
        if (folder / "pyproject.toml").is_file():
            return folder / ".pramaan"
    return start / ".pramaan"


def up(state: Path, env_file: Path | None, environ: Mapping[str, str]) -> Stack:
    """Start what is not given, and write `env_file` if one is named.

    Raises:
        LocalStackError: a part cannot be started; the text says what to do.
    """
    named = environ.get("PRAMAAN_PG_BIN")
    postgres = EmbeddedPostgres(state / POSTGRES, Path(named) if named else None)
    aws = EmbeddedAws(state / AWS)
    file = read_env(env_file) if env_file else EnvFile({}, {})
    chosen = {key: value for key, value in {**file.own, **environ}.items() if value}
    wanted: dict[str, Server] = {}
    if not _is_given(postgres, chosen.get("DATABASE_URL")):
        wanted[POSTGRES] = postgres
    if not _is_given(aws, chosen.get("AWS_ENDPOINT_URL")):
        wanted[AWS] = aws
    started = _start(state, wanted)

    defaults = {k: chosen.get(k) or file.managed.get(k) or v for k, v in DEFAULTS.items()}
    ours: dict[str, str] = {}
    if POSTGRES in wanted:
        ours |= dict(zip(DATABASE_KEYS, map(postgres.url, (APP, OWNER, MAINTENANCE)), strict=True))
    if AWS in wanted:
        ours |= dict(zip(AWS_KEYS, (aws.endpoint_url, aws.account, "local"), strict=True))
    given = {k: chosen[k] for k in (*DATABASE_KEYS, *AWS_KEYS) if k in chosen}
    if env_file:
        # Our keys of a part that is given now must go: they would mix two databases.
        absent = [key for key in (*DATABASE_KEYS, *AWS_KEYS) if key not in ours]
        if AWS not in wanted:
            absent += PROVISIONED_KEYS
        unset = {k: v for k, v in defaults.items() if not file.own.get(k)}
        write_env(env_file, {**unset, **ours}, forget=absent)
    return _stack(state, {**given, **defaults, **ours}, frozenset(wanted), started)


def env_note(state: Path) -> Path:
    """Return the file that remembers the `.env` as we wrote it."""
    return state / "env.sha256"


def down(state: Path, *, wipe: bool = False, env_file: Path | None = None) -> None:
    """End what `up` started; with `wipe` also delete the data, and `env_file` if it is ours alone.

    Raises:
        LocalStackError: a server does not end.
    """
    for server in _servers(state).values():
        if wipe:
            server.wipe()
        else:
            server.stop()
    if wipe and env_file is not None:
        remove_env(env_file, env_note(state))
    # Others may keep something in the folder: only an empty one is ours to remove.
    if wipe and state.is_dir() and not any(state.iterdir()):
        state.rmdir()


def status(state: Path, environ: Mapping[str, str] | None = None) -> list[Row]:
    """Tell of each part whether it runs and where; without passwords."""
    keys = {POSTGRES: "DATABASE_URL", AWS: "AWS_ENDPOINT_URL"}
    rows = []
    for part, server in _servers(state).items():
        url = (environ or {}).get(keys[part])
        if url and _is_given(server, url):
            # No part of it is shown: of a URL that is not well formed each may be the password.
            rows.append(Row(part, "given", keys[part]))
        elif server.port is None:
            rows.append(Row(part, "absent", str(server.root)))
        else:
            place = f"127.0.0.1:{server.port}" + (f"/{DATABASE}" if part == POSTGRES else "")
            rows.append(Row(part, _life(server), place))
    return rows


def _servers(state: Path) -> dict[str, EmbeddedPostgres | EmbeddedAws]:
    return {POSTGRES: EmbeddedPostgres(state / POSTGRES), AWS: EmbeddedAws(state / AWS)}


def _life(server: Server) -> str:
    if server.is_running():
        return "running"
    return "not answering" if is_held(server.lock) else "stopped"


def _is_given(server: EmbeddedPostgres | EmbeddedAws, url: str | None) -> bool:
    # A shell that loaded our .env hands our own URLs back, perhaps with a former port.
    return bool(url) and not server.issued(url or "")


def _start(state: Path, wanted: Mapping[str, Server]) -> frozenset[str]:
    if not wanted:
        return frozenset()
    must_be_able_to_end()
    make_folder(state)
    with ThreadPoolExecutor(len(wanted)) as pool:
        starts = {part: pool.submit(server.start) for part, server in wanted.items()}
    return frozenset(part for part, start in starts.items() if start.result())


def _stack(
    state: Path,
    variables: Mapping[str, str],
    embedded: frozenset[str],
    started: frozenset[str],
) -> Stack:
    return Stack(
        state=state,
        environment=variables["PRAMAAN_ENVIRONMENT"],
        database_url=variables["DATABASE_URL"],
        migration_database_url=variables.get("MIGRATION_DATABASE_URL"),
        maintenance_database_url=variables.get("MAINTENANCE_DATABASE_URL"),
        aws_endpoint_url=variables["AWS_ENDPOINT_URL"],
        aws_region=variables["AWS_REGION"],
        aws_access_key_id=variables.get("AWS_ACCESS_KEY_ID"),
        embedded=embedded,
        started=started,
        variables=variables,
    )
