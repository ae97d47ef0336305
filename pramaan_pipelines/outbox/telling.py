"""What becomes of a row, told where it can be counted and found.

Promises: each row that a committed drain brought to an end is counted once and has one line.
Never: tells before the commit, or tells anything of a row but its ids.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from pramaan_pipelines.messaging.publisher import SendStatus
from pramaan_pipelines.outbox.lanes import Lane
from pramaan_pipelines.telemetry.logs import log_outcome
from pramaan_pipelines.telemetry.metrics import CountMetric
from pramaan_pipelines.telemetry.provider import Telemetry


class RowOutcome(StrEnum):
    """What a drain made of one row."""

    SENT = "sent"
    RESENT = "resent"
    """Sent once more, because a replay asked for it."""
    FAILED = "failed"
    """Not sent; a later drain tries again."""
    PARKED = "parked"
    """Not sent; it waits for a person."""


class RowEnd(NamedTuple):
    """One row's end; `status` says why it was not sent."""

    event_id: UUID
    outcome: RowOutcome
    trace_id: str | None = None
    status: SendStatus | None = None


def tell_ends(telemetry: Telemetry, lane: Lane, ends: Sequence[RowEnd]) -> None:
    """Count `ends` by outcome, and write a line for each; call it after the commit."""
    for outcome, amount in Counter(end.outcome for end in ends).items():
        telemetry.count(CountMetric.RELAY_ROWS, amount, lane=lane.name, outcome=outcome)
    for end in ends:
        log_outcome(
            end.outcome,
            event_id=end.event_id,
            trace_id=end.trace_id,
            lane=lane.name,
            reason=end.status,
            level=logging.INFO if end.status is None else logging.WARNING,
        )
