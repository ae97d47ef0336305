"""The process of `pramaan metrics`.

Promises: two connections to Postgres at the most and one look kept in memory; it starts while the
database and AWS are away, goes on while they are, and ends soon after SIGTERM or SIGINT.
Never: needs more than the service role's rights to read, or anything of Dagster.
"""

import logging
import signal
from collections.abc import Callable
from contextlib import ExitStack
from threading import Event, Thread
from typing import Final

from pramaan_pipelines.errors import SettingsError
from pramaan_pipelines.gauges.endpoint import Exposition, serving
from pramaan_pipelines.gauges.source import Source
from pramaan_pipelines.gauges.values import (
    OF_DATABASE,
    OF_QUEUES,
    problems_of_database,
    problems_of_queues,
)
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry import export
from pramaan_pipelines.telemetry.metrics import GaugeMetric
from pramaan_pipelines.watch.look import DatabaseView, QueuesView, Watch

LOGGER = logging.getLogger(__name__)

EVERY_SECONDS: Final = 15.0


def sources(
    settings: Settings, database: Database, every_seconds: float
) -> tuple[Source[DatabaseView], Source[QueuesView]]:
    """Return both sources; an outage of one is none of the other's business."""
    watch = Watch(settings, database)
    return (
        Source(
            "the database",
            watch.database,
            OF_DATABASE,
            problems_of_database,
            GaugeMetric.DATABASE_READING_AGE,
            every_seconds,
        ),
        Source(
            "the queues",
            watch.queues,
            OF_QUEUES,
            problems_of_queues,
            GaugeMetric.QUEUES_READING_AGE,
            every_seconds,
        ),
    )


def serve(
    settings: Settings,
    *,
    listen: tuple[str, int] | None = None,
    every_seconds: float = EVERY_SECONDS,
    say: Callable[[str], object] = LOGGER.info,
) -> None:
    """Export until SIGTERM or SIGINT.

    Args:
        settings: names the database and the queues.
        listen: host and port of the Prometheus endpoint; None for none, port 0 for any.
        every_seconds: the pause between two looks.
        say: is told what is exported where.

    Raises:
        SettingsError: there is nowhere to export to, or `listen` is taken.
    """
    pushing = export.metric_reader()
    if pushing is None and listen is None:
        raise SettingsError(
            "there is nowhere to export to: set OTEL_EXPORTER_OTLP_ENDPOINT, or give --listen "
            "HOST:PORT for Prometheus"
        )
    stop = Event()
    exposition = None if listen is None else Exposition()
    readers = [reader for reader in (pushing, exposition and exposition.reader) if reader]
    provider = export.meter_provider(readers, settings.pramaan_environment)
    database = Database.connect(settings.database_url, pool_size=1)
    looks = sources(settings, database, every_seconds)
    for source in looks:
        source.register(provider.get_meter(export.SERVICE))
    with ExitStack() as ending:
        ending.callback(stop.set)
        if listen is not None and exposition is not None:
            say(f"Serving {ending.enter_context(serving(exposition, *listen))}")
        if pushing is not None:
            say("Pushing to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names.")
        for source in looks:
            # A look that hangs must hold up neither the end nor the other look.
            Thread(target=source.keep_looking, args=[stop], daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        stop.wait()
    if pushing is not None:
        export.flush_metrics(provider)
