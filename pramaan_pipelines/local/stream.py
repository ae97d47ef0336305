"""A gentle stream of new documents and matters, so that the UI is alive.

Promises: a few rows a minute, each inside a live span, as the application would write them; stops
when told.
Never: fails the stack that it feeds: a row that cannot be written is logged and the next one tried.
"""

import logging
import random
from threading import Event
from typing import Final

from opentelemetry.trace import Tracer

from pramaan_pipelines.local.seed import FIRMS, SampleFirm, new_document
from pramaan_pipelines.outbox.producers import (
    create_matter,
    insert_document_ingest_event,
    request_registration,
)
from pramaan_pipelines.store.database import Database

LOGGER = logging.getLogger(__name__)
PAUSE_SECONDS: Final = 15.0


def stream(
    database: Database,
    tracer: Tracer,
    environment: str,
    stop: Event,
    *,
    pause_seconds: float = PAUSE_SECONDS,
) -> None:
    """Write something new every `pause_seconds` until `stop` is set."""
    while not stop.wait(pause_seconds):
        firm = random.choice(FIRMS)  # noqa: S311 - variety, not secrecy
        try:
            with tracer.start_as_current_span("sample.upload"):
                write_something(database, environment, firm)
        except Exception as error:  # noqa: BLE001 - the stack may be on its way down
            LOGGER.warning("the sample stream could not write: %s", type(error).__name__)


def write_something(database: Database, environment: str, firm: SampleFirm) -> None:
    """Create a matter with two documents, one of them ready for registration."""
    with database.firm(firm.id) as connection:
        matter = create_matter(
            connection, firm_id=firm.id, title="A sample matter", environment=environment
        )
        uploaded = new_document(connection, firm.id, matter.matter_id)
        insert_document_ingest_event(connection, firm_id=firm.id, document_id=uploaded)
        indexed = new_document(connection, firm.id, matter.matter_id)
        request_registration(connection, firm_id=firm.id, document_id=indexed)
