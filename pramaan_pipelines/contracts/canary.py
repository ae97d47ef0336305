"""The canary: an envelope of no firm, by which a deployment shows that its road is open.

Promises: it is a valid envelope of its event in every field; its firm is one reserved id, which no
firm will ever have.
Never: means work. Whoever consumes a queue of ours drops an envelope of this firm and acknowledges
it; that is all there is to know about it.
"""

from typing import Final
from uuid import UUID

CANARY_FIRM_ID: Final = UUID("00000000-0000-4000-8000-000000000ca9")
CANARY_SUBJECT_ID: Final = CANARY_FIRM_ID
"""Its document and its matter, which are nowhere."""
