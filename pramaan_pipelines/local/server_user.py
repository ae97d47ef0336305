"""Which user the Postgres server runs as, and where that user can keep its data.

Promises: as root the server runs as the user who owns the state folder, else as `postgres` or
`nobody`, and its data stand where that user gets to.
Never: changes the mode or owner of a folder that was there before.
"""

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pramaan_pipelines.local.errors import LocalStackError
from pramaan_pipelines.local.files import is_root, read_or_none, write_atomically

CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True)
class ServerUser:
    """The user the server runs as; `switch` is what `subprocess` needs to become them."""

    uid: int
    gid: int
    switched: bool

    @property
    def switch(self) -> dict[str, Any]:
        """Arguments for `subprocess`: nothing at all unless we are root."""
        if not self.switched:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can_enter(self, folder: Path) -> bool:
        """Tell whether this user gets to `folder`; asked of the kernel, not read off modes."""
        enter = ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)]
        return self.run_quietly(enter)

    def run_quietly(self, command: list[str]) -> bool:
        """Run `command` as this user and tell whether it succeeded."""
        try:
            done = subprocess.run(
                command,
                check=False,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                **self.switch,
            )
        except OSError:
            return False
        return done.returncode == 0


def server_user(root: Path) -> ServerUser:
    """Return the user who is to run the server whose folder is `root`.

    Raises:
        LocalStackError: we are root and there is no user to change to.
    """
    if not is_root():
        return ServerUser(os.geteuid(), os.getegid(), switched=False)
    owner = root.stat()
    if owner.st_uid != 0:
        return ServerUser(owner.st_uid, owner.st_gid, switched=True)
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return ServerUser(entry.pw_uid, entry.pw_gid, switched=True)
    raise LocalStackError(
        "Postgres does not run as root, and there is neither a user `postgres` nor `nobody` to run "
        "it as. Create one, or run this as an ordinary user."
    )


def recorded_base(root: Path) -> Path | None:
    """Return the folder outside `root` that holds the server's files, if there is one."""
    text = read_or_none(root / "base")
    return Path(text) if text and _is_ours(Path(text)) else None


def find_base(root: Path, user: ServerUser, end_leftover: Callable[[Path], None]) -> Path:
    """Return the folder for the server's files: `root`, or one that `user` can reach.

    `end_leftover` ends a server that runs in a folder whose state was deleted beneath it.

    Raises:
        LocalStackError: there is no place, or data lie where the user no longer gets to.
    """
    base = recorded_base(root)
    if base or not user.switched or user.can_enter(root):
        return base or root
    if (root / "server").exists():
        raise LocalStackError(
            f"The Postgres data in {root} are out of reach for the user with the id {user.uid}, "
            "who runs the server. Open the folders above it to that user again."
        )
    # The path is in the name, so that a second state folder gets a second place.
    name = f"pramaan-{hashlib.sha256(str(root).encode()).hexdigest()[:16]}"
    for parent in (Path("/var/tmp"), Path(tempfile.gettempdir())):  # noqa: S108 - see _is_ours
        folder = parent / name
        if not user.can_enter(parent) or (os.path.lexists(folder) and not _is_ours(folder)):
            continue
        if folder.exists():
            # Its state folder, and with it every password, is gone: nobody can use these data.
            end_leftover(folder)
            shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
        folder.chmod(0o711)
        write_atomically(root / "base", f"{folder}\n")
        return folder
    raise LocalStackError(
        f"The user with the id {user.uid}, who runs the server, does not get to {root}. "
        "Set PRAMAAN_STATE_DIR to a folder that every user can enter."
    )


def _is_ours(folder: Path) -> bool:
    # Anybody may create a name in /var/tmp first: a link or another user's folder is not used.
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
