"""Private files and folders of the embedded stack, and the lock that makes two starts one.

Promises: a file appears whole or not at all, readable by its owner only; what root creates belongs
to whoever owns the folder that it stands in, so `sudo` does not lock a user out of their own state.
Never: follows a symbolic link where it writes, or changes the mode of a folder that it did not
create itself.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pramaan_pipelines.local.errors import LocalStackError

PRIVATE_FILE = 0o600


def is_root() -> bool:
    """Tell whether this process is root (containers, CI), which Postgres refuses to run as."""
    return os.geteuid() == 0


def make_folder(path: Path) -> None:
    """Create `path` if it is absent, closed to other users.

    As root the server runs as another user who must pass through: that takes the right to enter
    (0711), not the right to list, and every secret below is a 0600 file.
    """
    if path.is_dir():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
    except FileExistsError:
        if path.is_dir():  # another start was faster
            return
        raise LocalStackError(f"{path} is in the way: it is not a folder. Move it.") from None
    except OSError as error:
        raise LocalStackError(
            f"Cannot create {path} ({error.strerror}). Set PRAMAAN_STATE_DIR to a folder that "
            "you may write to."
        ) from error
    if is_root():
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
        path.chmod(0o711)


def open_private(path: Path, flags: int) -> int:
    """Open `path`, creating it as a 0600 file, and return a descriptor children do not inherit."""
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE)
    except PermissionError as error:
        raise LocalStackError(
            f"{path} belongs to another user. Run this as that user, or set PRAMAAN_STATE_DIR."
        ) from error
    _give_to_owner_of(path.parent, descriptor)
    return descriptor


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by a 0600 file that holds `text`; a killed writer leaves the old file."""
    target = path.resolve()  # the file behind a link is replaced, not the link
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    descriptor = open_private(temporary, os.O_WRONLY | os.O_EXCL)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_or_none(path: Path) -> str | None:
    """Return the text of `path`, or None when there is no such file or nothing in it."""
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise LocalStackError(f"{path} belongs to another user. Run this as that user.") from error


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; a second caller, in any process, waits here."""
    while True:
        descriptor = open_private(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_still(path, descriptor):
                yield
                return
            # The file was wiped while we waited: the lock we got guards nothing, so begin again.
        finally:
            os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _give_to_owner_of(folder: Path, descriptor: int) -> None:
    if is_root():
        owner = folder.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
