"""What arrived, against what was written: a fast relay that loses is not faster."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ledger:
    """The account of one go.

    Attributes:
        lost: rows that never arrived.
        duplicated: arrivals of a row after its first.
        unknown: arrivals of rows that nobody wrote.
    """

    lost: int
    duplicated: int
    unknown: int


def account(written: Iterable[str], arrived: Iterable[str]) -> Ledger:
    """Compare event ids.

    Args:
        written: of the rows that were due.
        arrived: of the messages that got there, in any order.
    """
    due, counts = set(written), Counter(arrived)
    return Ledger(
        lost=len(due - counts.keys()),
        duplicated=sum(counts[event_id] - 1 for event_id in due & counts.keys()),
        unknown=sum(counts[event_id] for event_id in counts.keys() - due),
    )
