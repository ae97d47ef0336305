"""Counts that stop: what may be millions is counted up to a limit, and said to be at least that.

Promises: a count costs no more than its limit, whatever the table holds.
Never: passes a cut count off as the whole.
"""

from dataclasses import dataclass
from typing import Final

COUNT_LIMIT: Final = 10_000
"""Rows after which a count stops. Row level security looks at each row, so that a count reads the
table and not its index alone: 10,000 rows are some 10 ms."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows.

    Attributes:
        number: what was counted.
        more: whether there are more than that; the count stopped at its limit.
    """

    number: int
    more: bool = False

    @classmethod
    def of(cls, found: int, limit: int = COUNT_LIMIT) -> "Count":
        """Return the count of a query that was let find one row more than `limit`."""
        return cls(min(found, limit), found > limit)

    def __add__(self, other: "Count") -> "Count":
        return Count(self.number + other.number, self.more or other.more)

    def __str__(self) -> str:
        return f"at least {self.number}" if self.more else str(self.number)

    def __bool__(self) -> bool:
        return self.number > 0
