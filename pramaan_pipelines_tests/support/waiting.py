"""Waiting for what another thread is about to do, bounded."""

import time
from collections.abc import Callable

from pramaan_pipelines_tests.support.world import World


def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Return once `condition` holds.

    Raises:
        TimeoutError: it did not within `seconds`.
    """
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("what the test waits for did not come about")
        time.sleep(0.01)


def until_blocked(world: World, count: int = 1) -> None:
    """Return once `count` sessions of this test's database wait for a lock."""
    until(
        lambda: (
            world.one(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            >= count
        )
    )
