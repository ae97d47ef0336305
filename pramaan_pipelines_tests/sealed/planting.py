"""Markers planted where content and secrets stand, and the search for them everywhere else.

A new place is one call of `Plant.mark`; a new sink is one call of `Haul.add`.
"""

import logging
import secrets
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from traceback import format_exception

LEVELS = {
    "": logging.INFO,
    "pramaan_pipelines": logging.DEBUG,
    "opentelemetry": logging.INFO,
    "dagster": logging.INFO,
    # From INFO on it tells every parameter; it is off unless somebody debugs with it.
    "sqlalchemy": logging.WARNING,
}
"""The loggers that are listened to: the root, and those that need not pass on to it."""


@dataclass
class Plant:
    """Markers, one a place, so that what is found says where it came from.

    Attributes:
        places: each place by its marker.
    """

    places: dict[str, str] = field(default_factory=dict)

    def mark(self, place: str) -> str:
        """Return the marker of `place`: a word that nothing but this place holds."""
        for marker, known in self.places.items():
            if known == place:
                return marker
        marker = f"Planted{secrets.token_hex(5)}"
        self.places[marker] = place
        return marker

    def know(self, place: str, value: str) -> str:
        """Take `value`, which stands at `place` already, for its marker."""
        self.places[value] = place
        return value


@dataclass
class Haul:
    """Everything that was stored or exported, by sink."""

    texts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, sink: str, *texts: object) -> None:
        """Add to a sink; of an error all that a serialiser would see, with what caused it."""
        self.texts[sink] += [
            "".join(format_exception(text)) if isinstance(text, BaseException) else str(text)
            for text in texts
        ]

    def found(self, plant: Plant) -> set[tuple[str, str]]:
        """Return each place whose marker stands in a sink, with the sink."""
        return {
            (place, sink)
            for sink, texts in self.texts.items()
            for marker, place in plant.places.items()
            if marker.lower() in "\n".join(texts).lower()
        }

    def around(self, plant: Plant, place: str, sink: str) -> str:
        """Return where the marker of `place` stands in `sink`, for whoever mends it."""
        marker = next(m for m, known in plant.places.items() if known == place).lower()
        text = "\n".join(self.texts[sink])
        at = text.lower().index(marker)
        return text[max(0, at - 300) : at + 100]


class _Keeper(logging.Handler):
    def __init__(self, haul: Haul) -> None:
        super().__init__(logging.DEBUG)
        self._haul = haul
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._haul.add("process logs", self.format(record), getattr(record, "pramaan", ""))


@contextmanager
def listening(haul: Haul) -> Iterator[None]:
    """Keep what is logged while the block runs."""
    keeper = _Keeper(haul)
    before = {name: logging.getLogger(name).level for name in LEVELS}
    for name, level in LEVELS.items():
        logging.getLogger(name).addHandler(keeper)
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        for name in LEVELS:
            logging.getLogger(name).removeHandler(keeper)
            logging.getLogger(name).setLevel(before[name])
