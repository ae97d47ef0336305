"""The duration metrics of the relays.

Promises: seconds, in buckets that fit seconds; labels service, environment and error.type only.
Never: a label whose values grow with the data.
"""

from enum import StrEnum
from typing import Final

SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The SDK's default buckets run to 10,000 and are wrong for seconds."""


class DurationMetric(StrEnum):
    """Every duration histogram that this project may record."""

    DOCUMENT_INGEST_RELAY = "pramaan.document_ingest_relay.duration"
    DOCUMENT_REGISTRATION_RELAY = "pramaan.document_registration_relay.duration"
    DOMAIN_EVENT_RELAY = "pramaan.domain_event_relay.duration"
