"""What an argument of a command may be: each is a type for argparse, which says what to give.

Promises: a value that cannot be meant is refused where it is given, with one that can be.
Never: reads anything but the value.
"""

import argparse
from collections.abc import Callable
from datetime import date, datetime
from typing import Final

MAX_PORT: Final = 65_535


def within(least: int, most: int) -> Callable[[str], int]:
    """Return the type of a whole number from `least` to `most`."""

    def number(value: str) -> int:
        if not value.isdigit() or not least <= int(value) <= most:
            raise argparse.ArgumentTypeError(f"give a whole number from {least} to {most}")
        return int(value)

    return number


def time(value: str) -> datetime:
    """Return a time with its zone, given in ISO 8601."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise argparse.ArgumentTypeError("give a time with its zone: 2026-01-31T00:00:00+00:00")
    return found


def day(value: str) -> date:
    """Return a day, given in ISO 8601."""
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise argparse.ArgumentTypeError("give a day (UTC): 2026-01-31") from None


def address(value: str) -> tuple[str, int]:
    """Return a host and a port."""
    host, colon, port = value.rpartition(":")
    if not (colon and host and port.isdigit() and int(port) <= MAX_PORT):
        raise argparse.ArgumentTypeError("give a host and a port: 127.0.0.1:9464")
    return host.strip("[]"), int(port)
