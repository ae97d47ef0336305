"""One check: what was looked at, and what is to be done where it is red.

Promises: a look that breaks is a red check that says why, and ends no other.
Never: prints a secret.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pramaan_pipelines.contracts.text import safe_text
from pramaan_pipelines.errors import PramaanError
from pramaan_pipelines.store.database import told_of

WELL = "as it should be"


@dataclass(frozen=True)
class Check:
    """One check: its name, whether it passed, and what was found or is to be done."""

    name: str
    passed: bool
    told: str


def checked(name: str, look: Callable[[], Iterable[str]], well: str = WELL) -> Check:
    """Make a check of `look`, which yields a sentence for each problem.

    Args:
        name: of the check.
        look: finds the problems, each with what to do.
        well: what is told where there are none.
    """
    try:
        problems = list(look())
    except PramaanError as error:
        problems = [str(error)]
    except Exception as error:  # noqa: BLE001 - a check that breaks is a red check
        problems = [f"could not be checked: {type(error).__name__}: {told_of(error)}"]
    told = "; ".join(safe_text(problem, 2000) for problem in problems)
    return Check(name, passed=not problems, told=told or well)


def unchecked(name: str, why: str) -> Check:
    """Return the red check of what could not be looked at."""
    return Check(name, passed=False, told=f"not checked: {why}")
