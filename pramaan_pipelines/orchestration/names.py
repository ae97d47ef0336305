"""Tags, groups and names that an operator searches by.

Promises: our tags begin with `pramaan/`; the same word for the same thing everywhere.
Never: uses a tag of the system's (`dagster/...`) for something of ours.
"""

from typing import Final

TAG_LANE: Final = "pramaan/lane"
TAG_RAIL: Final = "pramaan/rail"
TAG_EVENT: Final = "pramaan/event_id"
TAG_FIRM: Final = "pramaan/firm_id"
TAG_MATTER: Final = "pramaan/matter_id"
TAG_MESSAGE: Final = "pramaan/message_id"
TAG_OUTCOME: Final = "pramaan/outcome"
TAG_REASON: Final = "pramaan/reason"
TAG_GATE: Final = "pramaan/gate"
TAG_TRACE: Final = "pramaan/trace_id"
TAG_REPLAY: Final = "pramaan/replay"
TAG_ALSO_SENT: Final = "pramaan/also_sent"
TAG_DRY_RUN: Final = "pramaan/dry_run"
TAG_RESTART: Final = "pramaan/restart"

DO_IT: Final = ". This was a dry run: set dry_run to false to do it"
"""How the summary of a button's dry run ends."""

RAIL_FRAMER: Final = "framer"
RAIL_SWEEP: Final = "sweep"
RAIL_OPERATIONS: Final = "operations"
RAIL_REPLAY: Final = "replay"

NO_RUN_RETRIES: Final = {"dagster/max_retries": "0"}
"""One thing retries a framer run, and that is the queue; the next tick retries a relay."""


def max_runtime(seconds: int) -> dict[str, str]:
    """Return the tag after which run monitoring ends a run that no longer answers."""
    return {"dagster/max_runtime": str(seconds)}
