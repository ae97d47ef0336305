"""When a message that was not brought to its end may come again.

Promises: what no later try can mend is handed back at once, so that it reaches the dead-letter
queue in minutes; a fault that may pass waits a little longer each time.
Never: deletes a message.
"""

from typing import Final

FIRST_PAUSE_SECONDS: Final = 10
MAX_PAUSE_SECONDS: Final = 600


def redelivery_delay(*, receive_count: int, refused: bool) -> int:
    """Return the seconds for which the message stays hidden after a failed run.

    Args:
        receive_count: how often it was received so far, from 1.
        refused: whether a gate refused it, rather than something failing.
    """
    if refused:
        return 0
    return int(min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 6 ** max(0, receive_count - 1)))
