"""What a command says, on either stream.

Promises: no secret of the environment is in it, whatever was thought of before; an error is told
with where it came from, one safe line each.
Never: says anything by itself.
"""

import os
import sys
import traceback
from collections.abc import Iterator

from pramaan_pipelines.contracts.text import MARK, safe_text
from pramaan_pipelines.settings import known_secrets


def say(text: str) -> None:
    """Write a line to the standard output."""
    sys.stdout.write(f"{_sealed(text)}\n")


def complain(text: str) -> None:
    """Write `text` as it is to the standard error."""
    sys.stderr.write(_sealed(text))


def traceback_of(error: BaseException) -> str:
    """Return where `error` and what caused it came from."""
    return "".join(_steps(error))


def _steps(error: BaseException) -> Iterator[str]:
    if error.__cause__ is not None:
        yield from _steps(error.__cause__)
        yield "\nwhich caused:\n\n"
    elif error.__context__ is not None and not error.__suppress_context__:
        yield from _steps(error.__context__)
        yield "\nwhile handling which:\n\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__name__}: {safe_text(error)}\n"


def _sealed(text: str) -> str:
    for secret in known_secrets(os.environ):
        text = text.replace(secret, MARK)
    return text
