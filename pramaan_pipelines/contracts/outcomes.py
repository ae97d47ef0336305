"""How a framer run may end, and why an envelope may be refused.

Promises: the sets are closed; a `match` over them is checked for completeness.
Never: a reason that carries a value of the envelope.
"""

from enum import StrEnum


class Outcome(StrEnum):
    """How one framer run ended. All but REFUSED acknowledge the message."""

    STARTED = "started"
    DUPLICATE = "duplicate"
    CONSENT_BLOCKED = "consent_blocked"
    CLAIM_LOST = "claim_lost"
    REFUSED = "refused"


class RefusalReason(StrEnum):
    """Why an envelope was refused. The message is handed back and ends on the dead-letter queue."""

    MALFORMED = "malformed"
    WRONG_ENVIRONMENT = "wrong_environment"
    SUBJECT_NOT_VISIBLE = "subject_not_visible"


class SkipReason(StrEnum):
    """What `last_skip_reason` on a frame job may say."""

    CONSENT_BLOCKED = "consent_blocked"
