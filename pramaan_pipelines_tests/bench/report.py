"""The table for people, in Markdown as docs/performance.md holds it, and JSON for machines."""

import json
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from pramaan_pipelines_tests.bench.measure import Figure, Line, number

HEAD = (
    "| what | unit | ours: median (spread) | beside | its median (spread) | ratio (spread) "
    "| to reach | | lost / doubled: ours, its |\n|---|---|---|---|---|---|---|---|---|"
)
VERDICT = {True: "met", False: "**missed**", None: ""}


def markdown(lines: Sequence[Line]) -> str:
    """Return the table."""
    return "\n".join([HEAD, *(_row(line) for line in lines), "", *_notes(lines)])


def machine() -> str:
    """Return what the figures were measured on, and under which load."""
    load = os.getloadavg()[0]
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, load {load:.1f} at the end, "
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    )


def write_json(lines: Sequence[Line], path: Path) -> None:
    """Write every sample."""
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"machine": machine(), "lines": [line.as_dict() for line in lines]}
    path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def _row(line: Line) -> str:
    ratio = "" if line.other is None else _spread(line.ratios)
    reach = "" if line.reach is None else f"{line.better} {line.reach:g}"
    other = line.other
    cells = (
        line.what,
        line.unit,
        _spread(line.ours.values),
        "" if other is None else other.name,
        "" if other is None else _spread(other.values),
        ratio,
        reach,
        VERDICT[line.met],
        _fate(line.ours) + ("" if other is None else f", {_fate(other)}"),
    )
    return f"| {' | '.join(cells)} |"


def _notes(lines: Sequence[Line]) -> list[str]:
    return [f"- {line.what}: {line.note}." for line in lines if line.note]


def _fate(figure: Figure) -> str:
    return f"{figure.lost} / {figure.duplicated}"


def _spread(values: Sequence[float]) -> str:
    return f"{number(median(values))} ({number(min(values))} to {number(max(values))})"
