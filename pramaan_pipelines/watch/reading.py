"""A reading: what was found, or why nothing could be found.

Promises: whatever goes wrong while reading is told in one safe line, and is never taken for zero.
Never: lets one reading's fault reach another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pramaan_pipelines.errors import PramaanError
from pramaan_pipelines.store.database import told_of

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Reading(Generic[T_co]):
    """What one look came to.

    Attributes:
        value: what was found; None where nothing could be.
        problem: why not, safe to show; None where it was found.
    """

    value: T_co | None = None
    problem: str | None = None


def take(look: Callable[[], T]) -> Reading[T]:
    """Return the reading of `look`, whatever it raises."""
    try:
        return Reading(look())
    except PramaanError as error:
        return Reading(problem=str(error))
    except Exception as error:  # noqa: BLE001 - a reading that breaks is a reading that says so
        return Reading(problem=f"{type(error).__name__}: {told_of(error)}")
