"""For how long Dagster's own runs and events are kept.

Promises: stands apart from the purge, which brings along what a run has no use for.
Never: holds a number of its own but the budget of one purge.
"""

from dataclasses import dataclass
from typing import Final

DEFAULT_BUDGET_SECONDS: Final = 240.0
"""Well under what run monitoring lets a purge live."""


@dataclass(frozen=True)
class Keep:
    """For how many days what is kept.

    Attributes:
        successful: runs that succeeded.
        failed: runs that failed or were canceled.
        observations: asset events and check evaluations that belong to no run.
    """

    successful: int
    failed: int
    observations: int
