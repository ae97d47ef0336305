"""What the service may write, column by column; whatever is not named here it may not.

Reading is granted by table: the policies say which rows.
"""

from typing import Final

from pramaan_pipelines.store.tables import DISPATCH_COLUMNS

_TRACE: Final = {"traceparent", "tracestate"}
_JOB: Final = {
    "run_status",
    "rebuild_needed",
    "requested_generation",
    "claimed_generation",
    "claimed_at",
    "last_skip_reason",
    "last_skip_at",
    "pending_event_id",
    "failed_tries",
    "updated_at",
}

UPDATED: Final[dict[str, set[str]]] = {
    "ops.document_ingest_outbox": set(DISPATCH_COLUMNS),
    "ops.domain_event_outbox": set(DISPATCH_COLUMNS),
    "ops.matter_frame_jobs": _JOB,
    "agents.agent_run": {"status", "started_at", "finished_at"},
    "public.firms": {"name"},
    "public.matters": {"title"},
    "public.documents": {"matter_id", "registration_status"},
    "public.firm_inference_egress_consents": {"granted", "updated_at"},
    "public.matter_assignments": {"user_id"},
    "public.pramaan_pipelines_version": set(),
    "public.pramaan_pipelines_ledger": set(),
}

ALL: Final = "all"
INSERTED: Final[dict[str, set[str] | str]] = {
    "ops.document_ingest_outbox": {"firm_id", "event_type", "event_id", "document_id", *_TRACE},
    "ops.domain_event_outbox": {"firm_id", "event_type", "event_id", "envelope", *_TRACE},
    "ops.matter_frame_jobs": {"firm_id", "matter_id", *_JOB},
    "agents.agent_run": ALL,
    "public.firms": ALL,
    "public.matters": ALL,
    "public.documents": ALL,
    "public.firm_inference_egress_consents": ALL,
    "public.matter_assignments": ALL,
    "public.pramaan_pipelines_version": set(),
    "public.pramaan_pipelines_ledger": set(),
}


def columns_section() -> str:
    """Return the rights as the page shows them."""
    lines = ["| table | INSERT | UPDATE |", "|---|---|---|"]
    for table, updated in UPDATED.items():
        lines.append(f"| `{table}` | {_told(INSERTED[table])} | {_told(updated)} |")
    return "\n".join(lines)


def _told(columns: set[str] | str) -> str:
    if isinstance(columns, str):
        return f"{columns} columns"
    return ", ".join(f"`{column}`" for column in sorted(columns)) or "none"
