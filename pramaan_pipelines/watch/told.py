"""The look as lines of text, for a terminal.

Promises: a line a reading; one that could not be made says so in its place, and a reason that
several share stands in the first of them.
Never: shows a firm's or a row's name: a terminal is for numbers, and the checks name rows.
"""

from collections.abc import Iterator

from pramaan_pipelines.framer.standing import Frames
from pramaan_pipelines.watch.look import DatabaseView, QueuesView
from pramaan_pipelines.watch.reading import Reading

UNREADABLE = "NOT READ"


def database_lines(view: DatabaseView) -> Iterator[str]:
    """Return what stands in the database, line by line."""
    before = ""
    for line in _database_lines(view):
        name, mark, problem = line.partition(f"{UNREADABLE}: ")
        yield f"{name}{mark}as above" if mark and problem == before else line
        before = problem or before


def _database_lines(view: DatabaseView) -> Iterator[str]:
    for name, reading in view.lanes.items():
        left = reading.value
        told = _problem(reading)
        if left is not None:
            told = (
                f"pending {left.pending}, oldest {left.oldest_seconds:.0f} s, parked {left.parked}"
            )
        yield f"{name:<28} {told}"
    yield from _unclaimed(view)
    yield from _frame_jobs(view)
    schema = view.schema.value
    if schema is None:
        yield f"{'schema':<28} {_problem(view.schema)}"
    elif not schema.at_head:
        yield f"SCHEMA is at {schema.at or 'no revision'}, this code needs {schema.head}"


def _unclaimed(view: DatabaseView) -> Iterator[str]:
    if view.unclaimed.value is None:
        yield f"{'rows without a lane':<28} {_problem(view.unclaimed)}"
    for kind, count in (view.unclaimed.value or {}).items():
        yield f"NO LANE DRAINS {kind}: {count} pending rows"


def _frame_jobs(view: DatabaseView) -> Iterator[str]:
    if view.frame_jobs.value is None:
        yield f"{'frame jobs':<28} {_problem(view.frame_jobs)}"
    for status, count in (view.frame_jobs.value or {}).items():
        if count:
            yield f"frame jobs {status:<17} {count}"
    waiting = {
        "owed, healing builds them": view.owed,
        "stale, the sweep fails them": view.stale,
        "given up, see `pramaan rebuild`": view.given_up,
        "blocked by consent": view.consent_blocked,
    }
    for what, frames in waiting.items():
        yield from _frames(what, frames)


def queue_lines(view: QueuesView) -> Iterator[str]:
    """Return what stands on the queues, line by line."""
    for name, reading in view.queues.items():
        depth = reading.value
        told = _problem(reading)
        if depth is not None:
            told = f"visible {depth.visible}, in flight {depth.in_flight}, delayed {depth.delayed}"
        yield f"{name:<36} {told}"
    for name, reading in view.dead_letters.items():
        depth = reading.value
        if depth is None:
            yield f"{name:<36} {_problem(reading)}"
        else:
            hint = " (see `pramaan dead-letters`)" if depth.total else ""
            yield f"{name:<36} {depth.total}{hint}"


def _frames(what: str, reading: Reading[Frames]) -> Iterator[str]:
    if reading.value is None:
        yield f"matters {what}: {_problem(reading)}"
    elif reading.value.count:
        yield f"matters {what}: {reading.value.count}"


def _problem(reading: Reading[object]) -> str:
    return f"{UNREADABLE}: {reading.problem}"
