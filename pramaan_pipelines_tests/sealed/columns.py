"""What the service may write, column by column; whatever is not named here it may not.

Reading is granted by table: the policies say which rows.
"""

from typing import Final

from pramaan_pipelines.store.privileges import REQUIRED, SEALED

_GRANTED: Final = {(grant.on, grant.privilege): set(grant.columns) for grant in REQUIRED}

UPDATED: Final[dict[str, set[str]]] = {
    **{table: _GRANTED[table, "UPDATE"] for table in SEALED},
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
    **{table: _GRANTED[table, "INSERT"] for table in SEALED},
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
