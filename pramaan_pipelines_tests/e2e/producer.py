"""The application, as a process of its own: an upload and a new matter, each in a live span.

Prints the trace id and the ids of what it made, as JSON. It exports where OTEL_* says.
"""

import json
import sys
from typing import Any
from uuid import UUID

from sqlalchemy import text

from pramaan_pipelines.outbox.producers import (
    create_matter,
    insert_document_ingest_event,
    request_registration,
)
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.export import flush
from pramaan_pipelines.telemetry.provider import Telemetry

DOCUMENT = text(
    "INSERT INTO documents (id, firm_id) VALUES (gen_random_uuid(), :firm_id) RETURNING id"
)


def main() -> None:
    """Produce `argv[2]` matters and as many documents of the firm `argv[1]`."""
    firm_id, settings = UUID(sys.argv[1]), Settings.load()
    database = Database.connect(settings.database_url)
    tracer = Telemetry.current(settings.pramaan_environment).tracer
    made: list[dict[str, Any]] = []
    for _ in range(int(sys.argv[2])):
        with tracer.start_as_current_span("POST /matters") as span, database.firm(firm_id) as txn:
            document = txn.scalar(DOCUMENT, {"firm_id": firm_id})
            ingest = insert_document_ingest_event(txn, firm_id=firm_id, document_id=document)
            registration = request_registration(txn, firm_id=firm_id, document_id=document)
            matter = create_matter(
                txn, firm_id=firm_id, title="PRIVILEGED", environment=settings.pramaan_environment
            )
        context = span.get_span_context()
        made.append(
            {
                "trace_id": f"{context.trace_id:032x}",
                "span_id": f"{context.span_id:016x}",
                "ingest": str(ingest),
                "registration": str(registration),
                "matter": str(matter.matter_id),
                "event": str(matter.event_id),
            }
        )
    flush()
    sys.stdout.write(json.dumps(made))


if __name__ == "__main__":
    main()
