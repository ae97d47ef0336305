"""The one registry of subscribers in this code location.

Promises: an entry has its job, its sensor and its queue's resource.
Never: two entries on one queue.
"""

from typing import Final

from pramaan_pipelines.orchestration.framer import FRAMER
from pramaan_pipelines.orchestration.subscriptions import Subscription

SUBSCRIPTIONS: Final[tuple[Subscription, ...]] = (FRAMER,)
