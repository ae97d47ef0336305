"""What each session reaches in each table: the tests hold it, docs/isolation.md shows it.

A cell is the firms whose rows are reached, or why none is: see MEANINGS. Firm A is attacked.
"""

from typing import Final

from pramaan_pipelines_tests.sealed.attack import SESSIONS, TARGETS

READ: Final = ("SELECT", "COPY TO", "owner's view", "definer function", "leaky function")
LOCK: Final = ("FOR UPDATE", "FOR KEY SHARE")
COLUMNS: Final = (
    READ,
    LOCK,
    ("UPDATE",),
    ("INSERT as A",),
    ("INSERT RETURNING as A",),
    ("key of A, DO NOTHING",),
    ("key of A, DO UPDATE",),
)
"""Commands that come to the same in every cell stand together."""

ALWAYS: Final = {
    "DELETE": "denied",
    "TRUNCATE": "denied",
    "LOCK TABLE": "denied",
    "COPY FROM": "unsupported",
}
"""In every session and table."""

MEANINGS: Final = {
    "A, B, A+B": "the firms whose rows are read, locked, changed or written",
    "-": "no row, and rightly: there is none for this user, or none that may be changed",
    "no-firm": "an error that says that no firm is set",
    "no-UUID": "an error that says that the firm is no UUID",
    "policy": "an error of row level security",
    "denied": "an error: the role has no such right",
    "unsupported": "an error: Postgres does not do this under row level security",
    "tells": "the key is taken, by whom is not told; the keys are random and cannot be guessed",
}

_DOCUMENTS: Final = "ops.document_ingest_outbox"
_EVENTS: Final = "ops.domain_event_outbox"
_JOBS: Final = "ops.matter_frame_jobs"
_RUNS: Final = "agents.agent_run"
_CONSENTS: Final = "public.firm_inference_egress_consents"
_ASSIGNMENTS: Final = "public.matter_assignments"


def _everywhere(cells: str) -> dict[str, str]:
    return dict.fromkeys(TARGETS, cells)


#                            read lock update insert returning nothing do-update
_CELLS: Final = {
    "firm B": {
        _DOCUMENTS: "         B    -    -      policy policy   tells   policy",
        _EVENTS: "            B    -    -      policy policy   tells   policy",
        _JOBS: "              B    B    B      policy policy   B       B",
        _RUNS: "              B    B    B      policy policy   tells   policy",
        "public.firms": "     B    B    B      policy policy   policy  policy",
        "public.matters": "   B    B    B      policy policy   tells   policy",
        "public.documents": " B    B    B      policy policy   tells   policy",
        _CONSENTS: "          B    B    B      policy policy   policy  policy",
        _ASSIGNMENTS: "       B    B    B      policy policy   B       B",
    },
    "firm B, a role": {
        _DOCUMENTS: "         B    -    -      policy policy   tells   policy",
        _EVENTS: "            B    -    -      policy policy   tells   policy",
        _JOBS: "              B    B    B      policy policy   B       B",
        _RUNS: "              -    -    -      policy policy   policy  policy",
        "public.firms": "     B    B    policy policy policy   policy  policy",
        "public.matters": "   -    -    -      policy policy   policy  policy",
        "public.documents": " B    B    B      policy policy   tells   policy",
        _CONSENTS: "          B    B    policy policy policy   policy  policy",
        _ASSIGNMENTS: "       -    -    -      policy policy   policy  policy",
    },
    "user of A": {
        _DOCUMENTS: "         A    -    -      A      A        policy  policy",
        _EVENTS: "            A    -    -      A      A        policy  policy",
        _JOBS: "              A    A    A      A      A        policy  policy",
        _RUNS: "              -    -    -      policy policy   policy  policy",
        "public.firms": "     A    A    policy policy policy   policy  policy",
        "public.matters": "   -    -    -      A      policy   policy  policy",
        "public.documents": " A    A    A      A      A        policy  policy",
        _CONSENTS: "          A    A    policy policy policy   policy  policy",
        _ASSIGNMENTS: "       -    -    -      policy policy   policy  policy",
    },
    "no firm": _everywhere(" ".join(["no-firm"] * 7)),
    "no UUID": _everywhere(" ".join(["no-UUID"] * 7)),
    "staff": _everywhere(" ".join(["no-firm"] * 7))
    | {
        _DOCUMENTS: "         A+B  A+B  A+B    policy policy   policy  policy",
        _EVENTS: "            A+B  A+B  A+B    policy policy   policy  policy",
        _JOBS: "              A+B  A+B  A+B    policy policy   policy  policy",
    },
    "firm B as staff": {
        _DOCUMENTS: "         A+B  A+B  A+B    policy policy   tells   A",
        _EVENTS: "            A+B  A+B  A+B    policy policy   tells   A",
        _JOBS: "              A+B  A+B  A+B    policy policy   B       B",
        _RUNS: "              B    B    B      policy policy   tells   policy",
        "public.firms": "     B    B    B      policy policy   policy  policy",
        "public.matters": "   B    B    B      policy policy   tells   policy",
        "public.documents": " B    B    B      policy policy   tells   policy",
        _CONSENTS: "          B    B    B      policy policy   policy  policy",
        _ASSIGNMENTS: "       B    B    B      policy policy   B       B",
    },
    "names A": {
        _DOCUMENTS: "         A    -    -      A      A        policy  policy",
        _EVENTS: "            A    -    -      A      A        policy  policy",
        _JOBS: "              A    A    A      A      A        policy  policy",
        _RUNS: "              A    A    A      A      A        policy  policy",
        "public.firms": "     A    A    A      tells  tells    tells   A",
        "public.matters": "   A    A    A      A      A        policy  policy",
        "public.documents": " A    A    A      A      A        policy  policy",
        _CONSENTS: "          A    A    A      tells  tells    tells   A",
        _ASSIGNMENTS: "       A    A    A      A      A        policy  policy",
    },
}


def expected() -> dict[tuple[str, str, str], str]:
    """Return what every session comes to with every table and command."""
    found: dict[tuple[str, str, str], str] = {}
    for session, tables in _CELLS.items():
        for table, cells in tables.items():
            for commands, cell in zip(COLUMNS, cells.split(), strict=True):
                found |= {(session, table, command): cell for command in commands}
            found |= {(session, table, command): cell for command, cell in ALWAYS.items()}
    return found


REACH_A: Final = {
    "user of A": "it is of firm A",
    "names A": "the database takes the firm that the application names",
    "staff": "outboxes and frame jobs, to read and to update",
    "firm B as staff": "outboxes and frame jobs, to read and to update",
}
"""The sessions that may reach a row of firm A's at all, and why."""


def matrix_section() -> str:
    """Return the matrix as the page shows it: one table a session."""
    lines = [f"- `{cell}`: {meaning}" for cell, meaning in MEANINGS.items()]
    for session, tables in _CELLS.items():
        lines += ["", f"**{SESSIONS[session].title[0].upper()}{SESSIONS[session].title[1:]}**"]
        if why := REACH_A.get(session):
            lines += ["", f"Reaches rows of firm A: {why}."]
        heads = ("table", *(", ".join(commands) for commands in COLUMNS))
        lines += ["", _line(heads), "|" + "---|" * len(heads)]
        rows: dict[str, list[str]] = {}
        for table, cells in tables.items():
            rows.setdefault(_line(tuple(cells.split())), []).append(f"`{table}`")
        lines += [f"| {', '.join(names)} {cells}" for cells, names in rows.items()]
    always = ", ".join(f"{command} {cell}" for command, cell in ALWAYS.items())
    return "\n".join([*lines, "", f"In every session and table: {always}."])


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
