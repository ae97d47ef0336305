"""The `.env` file: a block that we manage among lines that are the user's.

Promises: one write is whole or not at all, mode 0600; lines outside the block stay as they are,
unless they set a key that we write, which then stands commented out. Writers wait for each other.
Never: drops a value of the user's, or puts values where a shell or dotenv would expand them.
"""

import fcntl
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from dotenv.parser import Binding, parse_stream

from pramaan_pipelines.local.errors import LocalStackError
from pramaan_pipelines.local.files import write_atomically

BEGIN = "# >>> pramaan: written by `pramaan up`; your own lines go outside this block >>>"
END = "# <<< pramaan <<<"
PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]*")


@dataclass(frozen=True)
class EnvFile:
    """What a `.env` file sets: the user's lines, and those of our block."""

    own: Mapping[str, str]
    managed: Mapping[str, str]


def read_env(env_file: Path) -> EnvFile:
    """Return what `env_file` sets; nothing when it is absent."""
    before, block, after = _split(_read(env_file))
    return EnvFile(own=_values([*before, *after]), managed=_values(block))


def write_env(env_file: Path, values: Mapping[str, str], forget: Sequence[str] = ()) -> None:
    """Set `values` in the managed block of `env_file`, and remove the keys `forget` from it.

    Other keys of the block stay, so that several writers can share it.

    Raises:
        LocalStackError: a value cannot be written in such a file.
    """
    with _writing_beside(env_file):
        before, block, after = _split(_read(env_file))
        kept = {k: v for k, v in _values(block).items() if k not in forget}
        lines = [f"{key}={_quoted(key, value)}\n" for key, value in {**kept, **values}.items()]
        head = "".join(_released(binding, values) for binding in before)
        tail = "".join(_released(binding, values) for binding in after)
        if head and not head.endswith("\n"):
            head += "\n"
        write_atomically(env_file, "".join([head, f"{BEGIN}\n", *lines, f"{END}\n", tail]))


def remember_env(env_file: Path, note: Path) -> None:
    """Note down `env_file` as we left it, for `remove_env`."""
    write_atomically(note, sha256(env_file.read_bytes()).hexdigest())


def remove_env(env_file: Path, note: Path) -> bool:
    """Remove `env_file` where it is ours alone and as `note` says that we left it.

    Returns:
        Whether it was removed; a file with a line of the user's stays, and so does one that was
        changed since. The note goes either way.
    """
    try:
        noted = note.read_text(encoding="ascii").strip()
        note.unlink()
        content = env_file.read_bytes()
    except FileNotFoundError:
        return False
    before, _, after = _split(_read(env_file))
    alone = not any(binding.original.string.strip() for binding in [*before, *after])
    if alone and sha256(content).hexdigest() == noted:
        env_file.unlink()
        return True
    return False


def _read(env_file: Path) -> list[Binding]:
    try:
        text = env_file.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return []
    return list(parse_stream(io.StringIO(text, newline="")))


def _split(bindings: list[Binding]) -> tuple[list[Binding], list[Binding], list[Binding]]:
    lines = [binding.original.string.strip() for binding in bindings]
    if BEGIN not in lines:
        return bindings, [], []
    begin = lines.index(BEGIN)
    end = lines.index(END, begin) if END in lines[begin:] else len(lines)
    blank = bindings[begin].original.string.partition(BEGIN)[0]  # belongs to the lines above
    above = list(parse_stream(io.StringIO(blank)))
    return [*bindings[:begin], *above], bindings[begin + 1 : end], bindings[end + 1 :]


def _values(bindings: list[Binding]) -> dict[str, str]:
    return {b.key: b.value for b in bindings if b.key is not None and b.value is not None}


def _released(binding: Binding, values: Mapping[str, str]) -> str:
    """Return a line of the user's as it is to stand beside our block."""
    text = binding.original.string
    if binding.key is None or binding.key not in values:
        return text
    if binding.value in {None, "", values[binding.key]}:
        return ""
    return "".join(f"# {line}" if line.strip() else line for line in text.splitlines(keepends=True))


def _quoted(key: str, value: str) -> str:
    if PLAIN.fullmatch(value):
        return value
    if "'" in value or "\\" in value or "\n" in value or "\r" in value:
        raise LocalStackError(f"The value of {key} has a character that .env files cannot hold.")
    return f"'{value}'"  # neither a shell nor dotenv expands anything in these


@contextmanager
def _writing_beside(env_file: Path) -> Iterator[None]:
    # The folder itself is the lock: no file to leave behind, and the .env is replaced beneath it.
    descriptor = os.open(env_file.resolve().parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
