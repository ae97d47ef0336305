"""Counts how often somebody waits for Postgres: that is what a network makes dear."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest


@dataclass
class Trips:
    """Round trips to the database so far; the BEGIN that psycopg sends first is not one of them."""

    number: int = 0


@contextmanager
def round_trips(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trips]:
    """Count the waits of this process's connections while the block runs.

    Connections are to be open by then: each handshake is several of its own.
    """
    trips, wait = Trips(), psycopg.Connection.wait

    def counted(connection: psycopg.Connection[Any], work: Any, **named: Any) -> Any:
        return wait(connection, _watched(work, trips), **named)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "wait", counted)
        yield trips


def _watched(work: Generator[Any, Any, Any], trips: Trips) -> Generator[Any, Any, Any]:
    """Do `work`; it is a round trip if it waits at all: a change of a setting here does not."""
    try:
        asked = next(work)
    except StopIteration as end:
        return end.value
    trips.number += 1
    while True:
        ready = yield asked
        try:
            asked = work.send(ready)
        except StopIteration as end:
            return end.value
