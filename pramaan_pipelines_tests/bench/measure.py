"""How everything is measured: contenders in turn, several rounds, medians and their spread.

Promises: the contenders of one comparison share every round, so that what else the machine does
meets them alike; a ratio is the median of the rounds' ratios; every figure says what was lost or
doubled on the way.
Never: compares figures of different runs.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from time import perf_counter
from typing import Protocol


@dataclass(frozen=True)
class Sample:
    """One go of one contender.

    Attributes:
        value: in the unit of its comparison.
        lost: rows that should have arrived and did not.
        duplicated: arrivals beyond the first of a row.
    """

    value: float
    lost: int = 0
    duplicated: int = 0

    def __str__(self) -> str:
        """Say it in a line of progress."""
        amiss = f", {self.lost} lost, {self.duplicated} doubled"
        return f"{number(self.value)}{amiss if self.lost or self.duplicated else ''}"


class Contender(Protocol):
    """What can be measured again and again."""

    @property
    def name(self) -> str:
        """How the table calls it."""
        ...

    def once(self) -> Sample:
        """Prepare, run, measure the run alone, and look at what arrived."""
        ...


@dataclass(frozen=True)
class Plain:
    """A contender that is one function."""

    name: str
    run: Callable[[], Sample]

    def once(self) -> Sample:
        """Call it."""
        return self.run()


@dataclass(frozen=True)
class Figure:
    """The samples of one contender, in the order of the rounds."""

    name: str
    samples: tuple[Sample, ...]

    @property
    def values(self) -> list[float]:
        """What was measured, round by round."""
        return [sample.value for sample in self.samples]

    @property
    def lost(self) -> int:
        """Rows lost, over all rounds."""
        return sum(sample.lost for sample in self.samples)

    @property
    def duplicated(self) -> int:
        """Arrivals too many, over all rounds."""
        return sum(sample.duplicated for sample in self.samples)

    def as_dict(self) -> dict[str, object]:
        """Return it for machines."""
        return {
            "name": self.name,
            "median": median(self.values),
            "low": min(self.values),
            "high": max(self.values),
            "values": self.values,
            "lost": self.lost,
            "duplicated": self.duplicated,
        }


def interleaved(contenders: Sequence[Contender], rounds: int) -> list[Figure]:
    """Let every contender go once a round, beginning with another each round.

    Args:
        contenders: at least one.
        rounds: at least 1.
    """
    samples: list[list[Sample]] = [[] for _ in contenders]
    for number in range(rounds):
        for step in range(len(contenders)):
            at = (number + step) % len(contenders)
            started = perf_counter()
            samples[at].append(contenders[at].once())
            took = perf_counter() - started
            say(f"  {number + 1}/{rounds} {contenders[at].name}: {samples[at][-1]} in {took:.1f} s")
    return [Figure(c.name, tuple(s)) for c, s in zip(contenders, samples, strict=True)]


class Better(StrEnum):
    """Which way a figure should differ from the other."""

    MORE = "at least"
    LESS = "at most"


@dataclass(frozen=True)
class Line:
    """One line of the table.

    Attributes:
        what: what was measured.
        unit: of both figures.
        ours: what this project does.
        other: beside what; None where the figure stands alone.
        better: the direction of `reach`.
        reach: the ratio to reach, or the figure itself where there is no other; None states only.
        note: what else belongs beside it.
    """

    what: str
    unit: str
    ours: Figure
    other: Figure | None = None
    better: Better = Better.MORE
    reach: float | None = None
    note: str = ""

    @property
    def ratios(self) -> list[float]:
        """Ours over the other's, round by round; the figures themselves where it stands alone."""
        if self.other is None:
            return self.ours.values
        return [o / t for o, t in zip(self.ours.values, self.other.values, strict=True)]

    @property
    def sound(self) -> bool:
        """Whether ours lost nothing and sent nothing twice."""
        return self.ours.lost == 0 and self.ours.duplicated == 0

    @property
    def met(self) -> bool | None:
        """Whether `reach` is reached by rows that all arrived; None where there is none."""
        if self.reach is None:
            return None
        found = median(self.ratios)
        near = found >= self.reach if self.better is Better.MORE else found <= self.reach
        return near and self.sound

    def as_dict(self) -> dict[str, object]:
        """Return it for machines."""
        return {
            "what": self.what,
            "unit": self.unit,
            "ours": self.ours.as_dict(),
            "other": None if self.other is None else self.other.as_dict(),
            "ratio": None if self.other is None else median(self.ratios),
            "reach": None if self.reach is None else f"{self.better} {self.reach:g}",
            "met": self.met,
            "note": self.note,
        }


def number(value: float) -> str:
    """Return a figure as a person reads it."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def say(what: str) -> None:
    """Tell how far it is, beside the table."""
    print(what, file=sys.stderr, flush=True)  # noqa: T201
