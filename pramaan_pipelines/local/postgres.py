"""A Postgres server of one's own, from whatever programs this machine has.

Promises: listens on 127.0.0.1 only, with scram passwords; keeps what it acknowledged through a
kill -9; ends with `stop` and not before. Roles and database are there after `start`.
Never: runs as root, opens a socket file (their paths have a length limit), or leaves a half-made
data directory where a finished one belongs.
"""

import os
import secrets
import shutil
import signal
import subprocess
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import psycopg

from pramaan_pipelines.local.binaries import Binaries, find_binaries, within_reach
from pramaan_pipelines.local.errors import LocalStackError
from pramaan_pipelines.local.files import open_private, read_or_none, write_atomically
from pramaan_pipelines.local.processes import (
    LOCALHOST,
    Steps,
    child_environment,
    end,
    inheritable_lock,
)
from pramaan_pipelines.local.roles import APP, DATABASE, ROLES, ensure_roles
from pramaan_pipelines.local.server import Server
from pramaan_pipelines.local.server_user import (
    ServerUser,
    find_base,
    recorded_base,
    server_user,
)

SUPERUSER = "postgres"
SETTINGS = {
    "listen_addresses": LOCALHOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# For tests, whose data may go with the machine, but not with the process.
UNSAFE_SETTINGS = {"fsync": "off", "full_page_writes": "off"}
BUILTIN_LOCALE_SINCE = 17


class EmbeddedPostgres(Server):
    """The server whose state is the folder `root`.

    Args:
        root: the folder; created at the first start.
        binaries: a folder of Postgres programs that the user chose.
        durable: False trades safety against a crash of the machine for speed, for tests.
    """

    title: ClassVar[str] = "Postgres"
    # Fast, then immediate (recovers at the next start), then the kernel's.
    ending: ClassVar[Steps] = (
        (signal.SIGINT, 30.0),
        (signal.SIGQUIT, 10.0),
        (signal.SIGKILL, 10.0),
    )
    start_seconds: ClassVar[float] = 120.0  # recovery after a kill -9 under writes takes its time
    own_group: ClassVar[bool] = False

    def __init__(self, root: Path, binaries: Path | None = None, *, durable: bool = True) -> None:
        super().__init__(root)
        self._named = binaries
        self._durable = durable

    @property
    def base(self) -> Path:
        """The folder with the server's files: `root`, or as root one that the server gets to."""
        return recorded_base(self.root) or self.root

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.base / "server" / "data"

    @property
    def lock(self) -> Path:
        """The file that lives and dies locked with the server."""
        return self.base / "running.lock"

    def url(self, user: str = APP, database: str = DATABASE) -> str:
        """Return the URL of `database` for one of our roles.

        Raises:
            LocalStackError: the server was never started.
        """
        password = read_or_none(self._password_file(user))
        if password is None or self.port is None:
            raise LocalStackError(
                f"There is no Postgres in {self.root} yet, or it has no role {user}. "
                "Run `pramaan up`."
            )
        return f"postgresql://{user}:{password}@{LOCALHOST}:{self.port}/{database}"

    def admin_url(self, database: str = SUPERUSER) -> str:
        """Return the URL of `database` for the superuser; only tests need it."""
        return self.url(SUPERUSER, database)

    def issued(self, url: str) -> bool:
        """Tell whether `url` is one that this folder's server gave out, on whatever port."""
        password = urlsplit(url).password
        return password is not None and password in {
            read_or_none(self._password_file(role)) for role in (*ROLES, SUPERUSER)
        }

    def _prepare(self) -> None:
        user = server_user(self.root)
        find_base(self.root, user, self._end_leftover)
        if self.data.is_dir() and not self._password_file(SUPERUSER).exists():
            raise LocalStackError(
                f"The passwords of the Postgres in {self.root} are gone. "
                "`pramaan down --wipe` and `pramaan up` begin afresh."
            )
        for role in (SUPERUSER, *ROLES):
            if read_or_none(self._password_file(role)) is None:
                write_atomically(self._password_file(role), secrets.token_urlsafe(24))

    def _launch(self, port: int) -> None:
        user = server_user(self.root)
        binaries = within_reach(find_binaries(self._named), user, self.base)
        self._initialise(binaries, user)
        self._check_version(binaries)
        # The lock is free, so no process of the server is left: this names a dead one, or a
        # stranger who got its id, for which Postgres would refuse to start.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        settings = SETTINGS if self._durable else SETTINGS | UNSAFE_SETTINGS
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        log = self._open_log()
        try:
            with inheritable_lock(self.lock) as held:
                # The folder goes by the environment and the log by descriptor: `pg_ctl` would
                # put both on a shell's command line.
                subprocess.run(
                    [binaries.program("pg_ctl"), "start", "-W", "-o", f"-p {port} {options}"],
                    check=False,  # a failed start shows in the lock and in the log
                    cwd="/",
                    env=child_environment(PGDATA=str(self.data), LC_ALL="C"),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[held],
                    start_new_session=True,  # a Ctrl-C now must not hit a half-started server
                    **user.switch,
                )
        finally:
            os.close(log)

    def _initialise(self, binaries: Binaries, user: ServerUser) -> None:
        if self.data.is_dir():
            return
        home = self.data.parent
        home.mkdir(mode=0o700, exist_ok=True)
        unfinished = home / "unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        password_file = self.base / "initdb.password"
        password_file.unlink(missing_ok=True)
        descriptor = open_private(password_file, os.O_WRONLY | os.O_EXCL)
        with os.fdopen(descriptor, "w") as file:
            file.write(self._password_file(SUPERUSER).read_text(encoding="utf-8"))
            if user.switched:
                os.chown(home, user.uid, user.gid, follow_symlinks=False)
                os.fchown(descriptor, user.uid, user.gid)
        command = [binaries.program("initdb"), "-D", str(unfinished), "-U", SUPERUSER]
        command += ["-E", "UTF8", "-A", "scram-sha-256", f"--pwfile={password_file}", "--no-locale"]
        if binaries.major >= BUILTIN_LOCALE_SINCE:
            command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        if not self._durable:
            command.append("--no-sync")
        done = subprocess.run(
            command,
            check=False,
            cwd="/",
            env=child_environment(LC_ALL="C"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **user.switch,
        )
        password_file.unlink()
        if done.returncode:
            raise LocalStackError(f"initdb failed: {done.stdout.strip()}")
        unfinished.rename(self.data)

    def _check_version(self, binaries: Binaries) -> None:
        found = read_or_none(self.data / "PG_VERSION")
        if found != str(binaries.major):
            raise LocalStackError(
                f"The data in {self.data} are of PostgreSQL {found or '(unknown)'}, the programs "
                f"in {binaries.folder} of {binaries.major}. Name programs of that version in "
                "PRAMAAN_PG_BIN, or give the data up with `pramaan down --wipe`."
            )

    def _furnish(self) -> None:
        passwords = {role: self._password_file(role).read_text(encoding="utf-8") for role in ROLES}
        with self._connect() as connection:
            ensure_roles(connection, passwords)

    def _answers(self) -> bool:
        try:
            self._connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        # Scram proves each side to the other: a stranger on the port neither gets the password
        # nor is taken for our server. What PG* variables say must not redirect us.
        return psycopg.connect(
            host=LOCALHOST,
            hostaddr=LOCALHOST,
            port=self.port or 0,
            user=SUPERUSER,
            password=read_or_none(self._password_file(SUPERUSER)) or "",
            dbname=SUPERUSER,
            options="",
            sslmode="disable",
            require_auth="scram-sha-256",
            connect_timeout=3,
            autocommit=True,
        )

    def _pid_hint(self) -> int | None:
        lines = (read_or_none(self.data / "postmaster.pid") or "").splitlines()
        return int(lines[0]) if lines and lines[0].isdecimal() else None

    def _folders_elsewhere(self) -> list[Path]:
        base = recorded_base(self.root)
        return [base] if base else []

    def _password_file(self, role: str) -> Path:
        return self.root / f"{role}.password"

    def _end_leftover(self, folder: Path) -> None:
        end(folder / "running.lock", None, self.ending, groups=False)
