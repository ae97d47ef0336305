"""The states of a run that has not ended, in one place for every sensor that counts places.

Promises: a run that is queued counts as one that runs.
Never: counts a run that has ended, however it did.
"""

from typing import Final

from dagster import DagsterRunStatus

UNFINISHED: Final = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]
