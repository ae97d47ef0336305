"""SQS, EventBridge and CloudFormation on this machine, by ministack in a process of its own.

Promises: listens on 127.0.0.1 only; outlives its caller; `stop` ends it with all its children.
Never: keeps anything. Queues and messages are in its memory and go with it: provision after each
`start` that returned True. It also stays away from Docker, whose containers it would clear up.
"""

import importlib.util
import json
import os
import secrets
import signal
import subprocess
import sys
from hashlib import sha256
from http.client import HTTPConnection, HTTPException
from typing import ClassVar

from pramaan_pipelines.local.errors import LocalStackError
from pramaan_pipelines.local.files import make_folder, read_or_none, write_atomically
from pramaan_pipelines.local.processes import (
    LOCALHOST,
    Steps,
    child_environment,
    inheritable_lock,
)
from pramaan_pipelines.local.server import Server

HEALTH = "/_ministack/health"
# The shell leaves at once and its child goes on: nobody has to wait for the server, and it never
# becomes a zombie of ours. Its output goes where the shell's errors go.
DETACH = '"$@" </dev/null >&2 & echo "$!"'


class EmbeddedAws(Server):
    """The server whose state is the folder `root`."""

    title: ClassVar[str] = "The AWS stand-in"
    # It has nothing to save, so it gets little time.
    ending: ClassVar[Steps] = ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
    start_seconds: ClassVar[float] = 60.0
    own_group: ClassVar[bool] = True

    @property
    def endpoint_url(self) -> str:
        """The URL for AWS_ENDPOINT_URL.

        Raises:
            LocalStackError: the server was never started.
        """
        if self.port is None:
            raise LocalStackError(f"There is no AWS stand-in in {self.root}. Run `pramaan up`.")
        return f"http://{LOCALHOST}:{self.port}"

    @property
    def account(self) -> str:
        """The access key: twelve digits, which the server takes for an account of its own.

        Raises:
            LocalStackError: the server was never started.
        """
        account = read_or_none(self.root / "account")
        if account is None:
            raise LocalStackError(f"There is no AWS stand-in in {self.root}. Run `pramaan up`.")
        return account

    def issued(self, url: str) -> bool:
        """Tell whether `url` is one that this folder's server gave out, now or on a former port."""
        return url.rstrip("/") in (read_or_none(self.root / "issued") or "").split()

    def _launch(self, port: int) -> None:
        if importlib.util.find_spec("ministack") is None:
            raise LocalStackError(
                "ministack is not installed. Install the extra `local` "
                "(`pip install pramaan-pipelines[local]`), or set AWS_ENDPOINT_URL."
            )
        scratch = self.root / "scratch"
        make_folder(scratch)
        log = self._open_log()
        try:
            with inheritable_lock(self.lock) as held:
                done = subprocess.run(
                    ["/bin/sh", "-c", DETACH, "sh", sys.executable, "-P", "-m", "ministack"],
                    check=True,
                    cwd=scratch,
                    env=child_environment(**self._settings(port, str(scratch))),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    pass_fds=[held],
                    start_new_session=True,
                )
        finally:
            os.close(log)
        write_atomically(self.root / "pid", done.stdout)

    def _settings(self, port: int, scratch: str) -> dict[str, str]:
        return {
            "BIND_HOST": LOCALHOST,  # its default is every interface
            "GATEWAY_PORT": str(port),
            "MINISTACK_HOST": LOCALHOST,
            "MINISTACK_EDITION": self._identity(),
            "LOG_LEVEL": "WARNING",
            "TMPDIR": scratch,
            "STATE_DIR": scratch,
            "S3_DATA_DIR": scratch,
            # What would open further ports, or remove containers that other programs started.
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "DOCKER_HOST": f"unix://{scratch}/no-docker",
        }

    def _answers(self) -> bool:
        if self.port is None:
            return False
        connection = HTTPConnection(LOCALHOST, self.port, timeout=5)
        try:
            connection.request("GET", HEALTH)
            answer = json.loads(connection.getresponse().read())
        except (OSError, HTTPException, ValueError):
            return False
        finally:
            connection.close()
        # The health answer repeats our mark; another ministack on the port would not.
        return isinstance(answer, dict) and answer.get("edition") == self._identity()

    def _identity(self) -> str:
        return f"pramaan-{sha256(str(self.root).encode()).hexdigest()[:16]}"

    def _pid_hint(self) -> int | None:
        text = read_or_none(self.root / "pid")
        return int(text) if text and text.isdecimal() else None

    def _prepare(self) -> None:
        if read_or_none(self.root / "account") is None:
            write_atomically(self.root / "account", str(secrets.randbelow(9 * 10**11) + 10**11))

    def _furnish(self) -> None:
        if not self.issued(self.endpoint_url):
            known = read_or_none(self.root / "issued") or ""
            write_atomically(self.root / "issued", f"{known}\n{self.endpoint_url}\n".lstrip())
