"""Counts that stop: what may be millions is counted up to a limit, and said to be at least that.

Promises: a count costs no more than its limit, whatever the table holds.
Never: passes a cut count off as the whole.
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

COUNT_LIMIT: Final = 10_000
"""Rows after which a count stops. Row level security looks at each row, so that a count reads the
table and not its index alone: 10,000 rows are some 10 ms."""

# Of a LIMIT the planner hopes that the rows it wants come early, and reads millions of others when
# they do not; a bitmap holds every row before the first is counted; compiling, or starting workers,
# costs more than such a query takes.
BY_INDEX: Final = text("""
    SELECT set_config('enable_seqscan', 'off', true),
           set_config('enable_bitmapscan', 'off', true),
           set_config('max_parallel_workers_per_gather', '0', true),
           set_config('jit', 'off', true),
           set_config('statement_timeout', '5000', true)
""")


def by_index(connection: Connection) -> None:
    """Let the rest of the transaction read through indexes, where one fits, and for 5 s at most."""
    connection.execute(BY_INDEX)


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
