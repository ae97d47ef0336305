"""The closed set of event types that the outboxes hold.

Promises: a name that is not here has no lane, no rule and no consumer.
Never: gains a member without a lane (a test holds the two together).
"""

from enum import StrEnum


class EventType(StrEnum):
    """What an outbox row announces."""

    DOCUMENT_INGEST_REQUESTED = "document.ingest.requested"
    DOCUMENT_REGISTRATION_REQUESTED = "document.registration.requested"
    MATTER_CREATED = "matter.created"
