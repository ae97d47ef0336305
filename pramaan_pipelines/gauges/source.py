"""A source of gauges: looked at again and again by a thread of its own, and shown as last seen.

Promises: whoever exports or scrapes gets what was seen last, at once, and never waits for a look;
what is too old to be true is not shown; the age of the last whole look always is.
Never: keeps more than the last look, or ends because of what a look raises.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Event
from time import monotonic
from typing import Final, Generic, TypeVar

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from pramaan_pipelines.gauges.values import Point
from pramaan_pipelines.store.database import told_of
from pramaan_pipelines.telemetry.metrics import REGISTRY, GaugeMetric, spec_of
from pramaan_pipelines.watch.look import LOOK_SECONDS

V = TypeVar("V")

LOGGER = logging.getLogger(__name__)

LOOKS_MISSED: Final = 3
"""So many looks that did not end make what was seen last too old to be shown."""


class Source(Generic[V]):
    """What one look gives, as gauges.

    Args:
        name: for the log.
        look: takes the look; it ends within its own bounds.
        points: how a view becomes each gauge.
        problems: what a view could not read.
        age: the gauge of the seconds since the last look that read everything.
        every_seconds: the pause between two looks.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        name: str,
        look: Callable[[], V],
        points: Mapping[GaugeMetric, Callable[[V], Iterable[Point]]],
        problems: Callable[[V], Sequence[str]],
        age: GaugeMetric,
        every_seconds: float,
    ) -> None:
        self._name = name
        self._look = look
        self._points = points
        self._problems = problems
        self._age = age
        self._every = every_seconds
        self._whole_at = monotonic()
        self._seen: tuple[float, V] | None = None
        self._told: list[str] | None = None

    def register(self, meter: Meter) -> None:
        """Make an instrument of each gauge."""
        for metric in (*self._points, self._age):
            spec = REGISTRY[metric]
            observe = partial(self.observations, metric)
            meter.create_observable_gauge(metric, [observe], spec.unit, spec.meaning)

    def observations(
        self, metric: GaugeMetric, _: CallbackOptions | None = None
    ) -> Iterable[Observation]:
        """Return the points of `metric` as they were seen last.

        Raises:
            UnregisteredMetricError: one has other labels than the registry names.
        """
        for value, labels in self._current(metric):
            spec_of(metric, labels)
            yield Observation(value, labels)

    def look(self) -> None:
        """Take one look."""
        try:
            view = self._look()
            problems = list(self._problems(view))
        except Exception as error:  # noqa: BLE001 - the next look may be a better one
            problems = [f"{type(error).__name__}: {told_of(error)}"]
        else:
            self._seen = (monotonic(), view)
        if not problems:
            self._whole_at = monotonic()
        self._tell(problems)

    def keep_looking(self, stop: Event) -> None:
        """Take look after look until `stop` is set."""
        while not stop.is_set():
            self.look()
            stop.wait(self._every)

    def _current(self, metric: GaugeMetric) -> Iterable[Point]:
        now, seen = monotonic(), self._seen
        if metric is self._age:
            return [(now - self._whole_at, {})]
        too_old = LOOKS_MISSED * (self._every + LOOK_SECONDS)
        if seen is None or now - seen[0] > too_old:
            return ()
        return self._points[metric](seen[1])

    def _tell(self, problems: list[str]) -> None:
        """Say once what cannot be read, and once that it can be again."""
        if problems and problems != self._told:
            LOGGER.warning("%s cannot be read: %s", self._name, "; ".join(problems))
        elif not problems and self._told:
            LOGGER.warning("%s can be read again", self._name)
        self._told = problems
