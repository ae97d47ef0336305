"""pgbouncer in transaction mode with one server connection, so that every client shares it."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from pramaan_pipelines_tests.support.aws import free_port
from pramaan_pipelines_tests.support.waiting import until

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
"""None where it is not installed (Debian: `apt-get install pgbouncer`)."""

CONFIG = """
[databases]
{database} = host={host} port={server_port} dbname={database}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {users}
pool_mode = transaction
default_pool_size = 1
max_client_conn = 50
ignore_startup_parameters = extra_float_digits
{user}
"""


@contextmanager
def transaction_pooler(url: str, folder: Path) -> Iterator[str]:
    """Run a pooler before the server of `url`; yields the URL through it.

    Args:
        url: of the service role.
        folder: an empty one, for its files.
    """
    parts, port = urlsplit(url), free_port()
    users = folder / "users.txt"
    users.write_text(f'"{parts.username}" "{parts.password}"\n')
    config = folder / "pgbouncer.ini"
    config.write_text(
        CONFIG.format(
            database=parts.path.removeprefix("/"),
            host=parts.hostname,
            server_port=parts.port,
            port=port,
            users=users,
            # It refuses to run as root.
            user="user = nobody" if os.geteuid() == 0 else "",
        )
    )
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(PROGRAM), str(config)], stdout=output, stderr=output, cwd="/"
        )
    try:

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        until(answers)
        at = f"{parts.username}:{parts.password}@127.0.0.1:{port}"
        yield urlunsplit((parts.scheme, at, parts.path, "", ""))
    finally:
        process.terminate()
        process.wait(30)
