"""The tables as this code needs them; the migrations make them so, and `alembic check` compares.

Promises: the columns and indexes here are those in the database at head.
Never: a column that `ops.matter_frame_jobs` or `agents.agent_run` shares with other services is
renamed or given another meaning here: add, never reshape.
"""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from pramaan_pipelines.store.database import TRIGGER_EVENT_INDEX

METADATA: Final = MetaData()
_NOW: Final = text("now()")


def _uuid(name: str, *, nullable: bool = False, default: str | None = None) -> Column[Any]:
    server_default = None if default is None else text(default)
    return Column(name, UUID(as_uuid=True), nullable=nullable, server_default=server_default)


def _time(name: str, *, nullable: bool = True) -> Column[Any]:
    return Column(
        name,
        DateTime(timezone=True),
        nullable=nullable,
        server_default=None if nullable else _NOW,
    )


def _trace() -> list[Column[Any]]:
    return [Column("traceparent", Text), Column("tracestate", Text)]


def _dispatch() -> list[Column[Any]]:
    """Return what a relay writes on a row; everything else is the producer's."""
    return [
        _time("dispatched_at"),
        Column("last_dispatch_error", Text),
        Column("attempts", Integer, nullable=False, server_default=text("0")),
        _time("next_attempt_at", nullable=False),
        _time("parked_at"),
        Column("parked_reason", Text),
    ]


DISPATCH_COLUMNS: Final = tuple(column.name for column in _dispatch())

document_ingest_outbox: Final = Table(
    "document_ingest_outbox",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    _uuid("event_id", default="gen_random_uuid()"),
    _uuid("firm_id"),
    _uuid("document_id"),
    Column("event_type", Text, nullable=False),
    *_trace(),
    _time("created_at", nullable=False),
    *_dispatch(),
    UniqueConstraint("event_id", name="document_ingest_outbox_event_id_key"),
    schema="ops",
)

domain_event_outbox: Final = Table(
    "domain_event_outbox",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    _uuid("event_id"),
    _uuid("firm_id"),
    Column("event_type", Text, nullable=False),
    Column("envelope", JSONB, nullable=False),
    *_trace(),
    _time("created_at", nullable=False),
    *_dispatch(),
    UniqueConstraint("event_id", name="domain_event_outbox_event_id_key"),
    schema="ops",
)

for _outbox in (document_ingest_outbox, domain_event_outbox):
    # A drain reads these two and nothing else, so its cost does not grow with what was sent.
    Index(
        f"{_outbox.name}_pending_idx",
        _outbox.c.event_type,
        _outbox.c.id,
        postgresql_where=text("dispatched_at IS NULL AND parked_at IS NULL"),
    )
    Index(
        f"{_outbox.name}_dispatched_idx",
        _outbox.c.dispatched_at,
        postgresql_where=text("dispatched_at IS NOT NULL"),
    )
    Index(
        f"{_outbox.name}_parked_idx",
        _outbox.c.event_type,
        _outbox.c.id,
        postgresql_where=text("parked_at IS NOT NULL"),
    )
    # A replay reads one day of a lane: what of it is pending, or what of it was sent.
    for _which, _rows in (
        ("pending", "dispatched_at IS NULL AND parked_at IS NULL"),
        ("sent", "dispatched_at IS NOT NULL"),
    ):
        Index(
            f"{_outbox.name}_{_which}_day_idx",
            _outbox.c.event_type,
            _outbox.c.created_at,
            _outbox.c.id,
            postgresql_where=text(_rows),
        )

outbox_replays: Final = Table(
    "outbox_replays",
    METADATA,
    _uuid("id", default="gen_random_uuid()"),
    Column("lane", Text, nullable=False),
    Column("day", Date, nullable=False),
    Column("also_sent", Boolean, nullable=False),
    _time("started_at", nullable=False),
    Column("status", Text, nullable=False, server_default=text("'open'")),
    _time("updated_at", nullable=False),
    _time("passed_at"),
    Column("passed_id", BigInteger),
    Column("owed", ARRAY(BigInteger), nullable=False, server_default=text("'{}'")),
    *(
        Column(name, BigInteger, nullable=False, server_default=text("0"))
        for name in ("sent", "again", "failed")
    ),
    PrimaryKeyConstraint("id", name="outbox_replays_pkey"),
    schema="ops",
)
Index(
    "outbox_replays_open_key",
    outbox_replays.c.lane,
    outbox_replays.c.day,
    outbox_replays.c.also_sent,
    unique=True,
    postgresql_where=text("status = 'open'"),
)

matter_frame_jobs: Final = Table(
    "matter_frame_jobs",
    METADATA,
    _uuid("id", default="gen_random_uuid()"),
    _uuid("firm_id"),
    _uuid("matter_id"),
    Column("run_status", Text, nullable=False, server_default=text("'idle'")),
    Column("rebuild_needed", Boolean, nullable=False, server_default=text("false")),
    Column("requested_generation", BigInteger, nullable=False, server_default=text("0")),
    Column("claimed_generation", BigInteger, nullable=False, server_default=text("0")),
    _time("claimed_at"),
    Column("last_skip_reason", Text),
    _time("last_skip_at"),
    _uuid("pending_event_id", nullable=True),
    Column("failed_tries", Integer, nullable=False, server_default=text("0")),
    _time("created_at", nullable=False),
    _time("updated_at", nullable=False),
    PrimaryKeyConstraint("id", name="matter_frame_jobs_pkey"),
    UniqueConstraint("firm_id", "matter_id", name="matter_frame_jobs_firm_id_matter_id_key"),
    schema="ops",
)
Index(
    "matter_frame_jobs_running_idx",
    matter_frame_jobs.c.claimed_at,
    postgresql_where=text("run_status = 'running'"),
)

Index(
    "matter_frame_jobs_owed_idx",
    matter_frame_jobs.c.firm_id,
    matter_frame_jobs.c.updated_at,
    postgresql_where=text("run_status <> 'running' AND (rebuild_needed OR run_status = 'failed')"),
)

Index(
    "matter_frame_jobs_blocked_idx",
    matter_frame_jobs.c.firm_id,
    matter_frame_jobs.c.last_skip_at,
    postgresql_where=text(
        "run_status <> 'running' AND last_skip_reason = 'consent_blocked' "
        "AND last_skip_at > coalesce(claimed_at, '-infinity')"
    ),
)

agent_run: Final = Table(
    "agent_run",
    METADATA,
    _uuid("id", default="gen_random_uuid()"),
    _uuid("firm_id"),
    _uuid("matter_id", nullable=True),
    _uuid("chat_session_id", nullable=True),
    _uuid("wizard_form_id", nullable=True),
    _uuid("user_id", nullable=True),
    Column("agent_key", Text, nullable=False),
    Column("status", Text, nullable=False),
    _time("created_at", nullable=False),
    _time("started_at"),
    _time("finished_at"),
    _uuid("trigger_event_id", nullable=True),
    Column("claimed_generation", BigInteger),
    *_trace(),
    PrimaryKeyConstraint("id", name="agent_run_pkey"),
    schema="agents",
)
Index(
    TRIGGER_EVENT_INDEX,
    agent_run.c.firm_id,
    agent_run.c.trigger_event_id,
    unique=True,
    postgresql_where=text("trigger_event_id IS NOT NULL"),
)
Index(
    "agent_run_firm_id_matter_id_generation_idx",
    agent_run.c.firm_id,
    agent_run.c.matter_id,
    agent_run.c.claimed_generation,
    postgresql_where=text("claimed_generation IS NOT NULL"),
)

# The application's, as far as this code reads them: what else they hold is not ours to know.
firm_inference_egress_consents: Final = Table(
    "firm_inference_egress_consents",
    METADATA,
    _uuid("firm_id"),
    Column("granted", Boolean, nullable=False),
)
matters: Final = Table("matters", METADATA, _uuid("id"), _uuid("firm_id"))
documents: Final = Table(
    "documents",
    METADATA,
    _uuid("id"),
    _uuid("firm_id"),
    Column("registration_status", Text, nullable=False),
)

HOST_TABLES: Final = frozenset(
    {
        "firm_inference_egress_consents",
        "matters",
        "documents",
        "agent_run",
        "document_ingest_outbox",
    }
)
"""Tables of the real application: there may be more in them than is declared here."""
