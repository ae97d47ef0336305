"""The closed set of event types that the outboxes hold.

Promises: a name that is not here has no lane, no rule and no consumer.
Never: gains a member without a lane (a test holds the two together).
"""

import re
from enum import StrEnum
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")
UNNAMEABLE: Final = "<not the name of an event>"


class EventType(StrEnum):
    """What an outbox row announces."""

    DOCUMENT_INGEST_REQUESTED = "document.ingest.requested"
    DOCUMENT_REGISTRATION_REQUESTED = "document.registration.requested"
    MATTER_CREATED = "matter.created"


def shown_type(event_type: str) -> str:
    """Return a stranger's event_type as it may be shown: a name, but never a sentence."""
    return event_type if _NAME.fullmatch(event_type) else UNNAMEABLE
