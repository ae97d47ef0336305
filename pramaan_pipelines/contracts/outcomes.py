"""How a framer run may end, and why an envelope may be refused.

Promises: the sets are closed; a `match` over them is checked for completeness.
Never: a reason that carries a value of the envelope.
"""

from collections.abc import Sequence
from enum import StrEnum

from pramaan_pipelines.errors import PramaanError


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


class EnvelopeRefusedError(PramaanError):
    """An envelope did not pass a gate, and no later try of the same text will.

    Attributes:
        reason: why, from the closed set.
        places: where, as dotted field names, each with the kind of error; never a value.
    """

    def __init__(self, reason: RefusalReason, places: Sequence[str]) -> None:
        self.reason = reason
        self.places = tuple(places)
        super().__init__(
            f"envelope refused ({reason}) at: {', '.join(self.places)}. It goes to the "
            "dead-letter queue: mend the producer, then send it again from there."
        )
