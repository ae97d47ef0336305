"""The closed registry of metrics: every name, with its kind, unit, labels and meaning.

Promises: seconds come in buckets that fit seconds; a metric has the labels that stand here and no
others, each with a small closed set of values.
Never: a label whose values grow with the data; a name that is not registered is an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pramaan_pipelines.errors import PramaanError

SECONDS_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""The SDK's default buckets run to 10,000 and are wrong for seconds."""


class DurationMetric(StrEnum):
    """Every histogram of seconds."""

    DOCUMENT_INGEST_RELAY = "pramaan.document_ingest_relay.duration"
    DOCUMENT_REGISTRATION_RELAY = "pramaan.document_registration_relay.duration"
    DOMAIN_EVENT_RELAY = "pramaan.domain_event_relay.duration"
    FRAMER_TRIGGER = "pramaan.framer_trigger.duration"


class CountMetric(StrEnum):
    """Every counter."""

    RELAY_ROWS = "pramaan.relay.rows"
    FRAME_JOBS_SWEPT = "pramaan.frame_jobs.swept"


class GaugeMetric(StrEnum):
    """Every gauge; the process of `pramaan metrics` reads them, whatever the runs do."""

    OUTBOX_PENDING = "pramaan.outbox.pending"
    OUTBOX_OLDEST_PENDING = "pramaan.outbox.oldest_pending_age"
    OUTBOX_PARKED = "pramaan.outbox.parked"
    OUTBOX_UNCLAIMED = "pramaan.outbox.unclaimed"
    FRAME_JOBS = "pramaan.frame_jobs"
    FRAME_JOBS_STALE = "pramaan.frame_jobs.stale"
    FRAME_JOBS_OWED = "pramaan.frame_jobs.owed"
    FRAME_JOBS_GIVEN_UP = "pramaan.frame_jobs.given_up"
    FRAME_JOBS_CONSENT_BLOCKED = "pramaan.frame_jobs.consent_blocked"
    QUEUE_DEPTH = "pramaan.queue.depth"
    DEAD_LETTERS = "pramaan.dead_letters"
    UNDELIVERABLE = "pramaan.undeliverable_events"
    DATABASE_READING_AGE = "pramaan.database.reading_age"
    QUEUES_READING_AGE = "pramaan.queues.reading_age"


class Kind(StrEnum):
    """What sort of instrument a metric is."""

    HISTOGRAM = "histogram"
    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True)
class MetricSpec:
    """What the registry says of one metric.

    Attributes:
        kind: the instrument.
        unit: in UCUM's notation: `s`, or what is counted in braces.
        meaning: one sentence; it travels with the metric as its description.
        labels: those that every point has.
        at_times: those that a point has where there is something to say.
    """

    kind: Kind
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    at_times: tuple[str, ...] = ()


def _duration(what: str, *labels: str) -> MetricSpec:
    return MetricSpec(
        Kind.HISTOGRAM, "s", what, ("service", "environment", *labels), ("error.type",)
    )


def _gauge(unit: str, what: str, *labels: str) -> MetricSpec:
    return MetricSpec(Kind.GAUGE, unit, what, labels)


REGISTRY: Final[Mapping[str, MetricSpec]] = {
    DurationMetric.DOCUMENT_INGEST_RELAY: _duration("One drain of document.ingest.requested."),
    DurationMetric.DOCUMENT_REGISTRATION_RELAY: _duration(
        "One drain of document.registration.requested."
    ),
    DurationMetric.DOMAIN_EVENT_RELAY: _duration("One drain of matter.created."),
    DurationMetric.FRAMER_TRIGGER: _duration(
        "One framer run, from its first gate to its end.", "outcome"
    ),
    CountMetric.RELAY_ROWS: MetricSpec(
        Kind.COUNTER, "{row}", "Rows that a drain brought to an end.", ("lane", "outcome")
    ),
    CountMetric.FRAME_JOBS_SWEPT: MetricSpec(
        Kind.COUNTER, "{job}", "Frame jobs of dead workers that the sweep failed."
    ),
    GaugeMetric.OUTBOX_PENDING: _gauge("{row}", "Rows not yet sent.", "lane"),
    GaugeMetric.OUTBOX_OLDEST_PENDING: _gauge(
        "s", "Age of the oldest row not yet sent; 0 where there is none.", "lane"
    ),
    GaugeMetric.OUTBOX_PARKED: _gauge("{row}", "Rows that wait for a person.", "lane"),
    GaugeMetric.OUTBOX_UNCLAIMED: _gauge("{row}", "Pending rows that no lane drains."),
    GaugeMetric.FRAME_JOBS: _gauge("{job}", "Frame jobs by run status.", "status"),
    GaugeMetric.FRAME_JOBS_STALE: _gauge(
        "{job}", "Running frame jobs whose lease is over: the sweep has not failed them yet."
    ),
    GaugeMetric.FRAME_JOBS_OWED: _gauge(
        "{job}", "Frame jobs that healing takes up, once their firm consents."
    ),
    GaugeMetric.FRAME_JOBS_GIVEN_UP: _gauge(
        "{job}", "Failed frame jobs that healing has given up."
    ),
    GaugeMetric.FRAME_JOBS_CONSENT_BLOCKED: _gauge(
        "{job}", "Frame jobs that stopped for want of the firm's consent."
    ),
    GaugeMetric.QUEUE_DEPTH: _gauge(
        "{message}", "Messages on the queue that the lane ends on.", "lane", "status"
    ),
    GaugeMetric.DEAD_LETTERS: _gauge(
        "{message}", "Messages on that queue's dead-letter queue.", "lane"
    ),
    GaugeMetric.UNDELIVERABLE: _gauge(
        "{message}", "Events that the bus could not deliver to the framer's queue."
    ),
    GaugeMetric.DATABASE_READING_AGE: _gauge(
        "s", "Time since `pramaan metrics` last read the database."
    ),
    GaugeMetric.QUEUES_READING_AGE: _gauge(
        "s", "Time since `pramaan metrics` last read the queues."
    ),
}


class UnregisteredMetricError(PramaanError):
    """A metric or a label is not in the registry. Add it there and in docs/metrics.md."""


def spec_of(name: str, labels: Mapping[str, object]) -> MetricSpec:
    """Return what the registry says of `name`, with exactly these `labels`.

    Raises:
        UnregisteredMetricError: it says nothing, or names other labels.
    """
    spec = REGISTRY.get(name)
    if spec is None:
        raise UnregisteredMetricError(
            f"{name!r} is not a registered metric: add it to telemetry/metrics.py"
        )
    if not set(spec.labels) <= set(labels) <= {*spec.labels, *spec.at_times}:
        raise UnregisteredMetricError(
            f"{name} has the labels {', '.join(spec.labels) or 'none'}, not "
            f"{', '.join(labels) or 'none'}: see telemetry/metrics.py"
        )
    return spec


def prometheus_name(name: str) -> str:
    """Return what Prometheus calls the metric `name`; a histogram's series add `_bucket` and so on.

    Source: https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
    """
    spec = REGISTRY[name]
    suffix = {"s": "_seconds"}.get(spec.unit, "") + ("_total" if spec.kind is Kind.COUNTER else "")
    return name.replace(".", "_") + suffix
