"""Ways around row level security that a session of firm B might try, and what each comes to.

The last statement of a trick is the one that counts. `{a}` and `{b}` are the firms' ids, `{secret}`
is what firm A's matter says.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from pramaan_pipelines_tests.sealed.attack import Connection, Scene

DENIED: Final = "denied"
NOTHING_OF_A: Final = "nothing of A"
OF_A: Final = "rows of A"


@dataclass(frozen=True)
class Trick:
    """One way.

    Attributes:
        title: what is tried, in the table.
        statements: one after another; errors of all but the last are the trick's own.
        comes_to: DENIED, NOTHING_OF_A, or the SQLSTATE of another error.
        reads: whether the last statement would read firm A's row if nothing were in the way.
    """

    title: str
    statements: tuple[str, ...]
    comes_to: str
    reads: bool = False


def _denied(title: str, *statements: str) -> Trick:
    return Trick(title, statements, DENIED)


def _blind(title: str, *statements: str) -> Trick:
    return Trick(title, statements, NOTHING_OF_A, reads=True)


LOOK: Final = "SELECT firm_id FROM matters"

TRICKS: Final = (
    *(
        _denied(f"become {role}: {how}", how.format(role=role))
        for role in ("postgres", "pramaan_owner", "pramaan_maintenance")
        for how in (
            "SET ROLE {role}",
            "SET SESSION AUTHORIZATION {role}",
            "SELECT set_config('role', '{role}', true)",
        )
    ),
    *(
        _denied(f"a default for every later session: {what}", f"ALTER ROLE pramaan_app SET {what}")
        for what in ("app.is_staff = 'true'", "app.firm_id = '{a}'")
    ),
    _denied("switch row level security off", "SET row_security = off", LOOK),
    _denied("play a replica", "SET session_replication_role = replica"),
    *(
        _denied(f"change the table: {what}", f"ALTER TABLE matters {what}")
        for what in (
            "DISABLE ROW LEVEL SECURITY",
            "NO FORCE ROW LEVEL SECURITY",
            "OWNER TO pramaan_app",
            "ADD COLUMN mine text",
            "DISABLE TRIGGER ALL",
        )
    ),
    _denied("add a policy", "CREATE POLICY mine ON matters USING (true)"),
    _denied("drop a policy", "DROP POLICY matters_firm_isolation ON matters"),
    _denied("loosen a policy", "ALTER POLICY matters_firm_isolation ON matters USING (true)"),
    _denied(
        "replace the function that the policies ask",
        "CREATE OR REPLACE FUNCTION ops.pramaan_firm(or_staff boolean) RETURNS uuid "
        "LANGUAGE sql AS $$ SELECT '{a}'::uuid $$",
    ),
    _denied(
        "grant itself a right", "GRANT DELETE ON matters TO pramaan_app", "DELETE FROM matters"
    ),
    _denied("make a view where others look", "CREATE VIEW ops.mine AS SELECT 1"),
    _denied("make a function in public", "CREATE FUNCTION mine() RETURNS int RETURN 1"),
    _denied(
        "a trigger",
        "CREATE FUNCTION pg_temp.t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN END'",
        "CREATE TRIGGER mine BEFORE UPDATE ON matters EXECUTE FUNCTION pg_temp.t()",
    ),
    _denied("a rule", "CREATE RULE mine AS ON UPDATE TO matters DO INSTEAD NOTHING"),
    _denied("a child table", "CREATE TEMP TABLE child () INHERITS (matters)"),
    Trick(
        "a foreign key that probes for a matter",
        ("CREATE TEMP TABLE probe (id uuid REFERENCES matters)",),
        "42P16",
    ),
    _denied("a publication", "CREATE PUBLICATION mine FOR TABLE matters"),
    _denied(
        "a replication slot", "SELECT pg_create_logical_replication_slot('mine', 'test_decoding')"
    ),
    _denied("an extension that connects elsewhere", "CREATE EXTENSION postgres_fdw"),
    *(
        _denied(f"the counter of the outbox: {how}", how)
        for how in (
            "SELECT nextval('ops.domain_event_outbox_id_seq')",
            "SELECT currval('ops.domain_event_outbox_id_seq')",
            "SELECT setval('ops.domain_event_outbox_id_seq', 1)",
            "SELECT last_value FROM ops.domain_event_outbox_id_seq",
        )
    ),
    *(
        _denied(f"a file or a program of the server: {how}", how)
        for how in (
            "COPY matters TO '/tmp/mine'",
            "COPY (SELECT 1) TO PROGRAM 'true'",
            "SELECT pg_read_file('postgresql.conf')",
            "SELECT pg_ls_dir('.')",
            "SELECT lo_import('/etc/hostname')",
            "SELECT lo_export(1, '/tmp/mine')",
            "SELECT pg_ls_waldir()",
        )
    ),
    *(
        _denied(f"the catalogue: {table}", f"TABLE {table}")
        for table in ("pg_authid", "pg_statistic", "pg_hba_file_rules", "pg_statistic_ext_data")
    ),
    *(
        _denied(f"the bookkeeping of the migrations: {how}", how)
        for how in (
            "SELECT * FROM pramaan_pipelines_ledger",
            "UPDATE pramaan_pipelines_version SET version_num = '0001'",
        )
    ),
    _blind("what the planner remembers of the columns", "SELECT most_common_vals FROM pg_stats"),
    _blind("a sample", "SELECT firm_id FROM matters TABLESAMPLE system (100)"),
    _blind(
        "rows by their place",
        "SELECT firm_id FROM matters WHERE ctid = ANY (ARRAY(SELECT format('(0,%s)', n)::tid "
        "FROM generate_series(0, 50) AS n))",
    ),
    _blind(
        "functions of its own in front of the policies'",
        "CREATE FUNCTION pg_temp.pramaan_firm(or_staff boolean) RETURNS uuid LANGUAGE sql "
        "AS $$ SELECT '{a}'::uuid $$",
        "CREATE FUNCTION pg_temp.current_setting(text, boolean) RETURNS text LANGUAGE sql "
        "AS $$ SELECT '{a}' $$",
        "CREATE DOMAIN pg_temp.uuid AS text",
        "SET search_path = pg_temp, pg_catalog, public",
        LOOK,
    ),
    Trick(
        "a plan that was made for firm A",
        (
            "SET plan_cache_mode = force_generic_plan",
            "SELECT set_config('app.firm_id', '{a}', true)",
            f"PREPARE mine AS {LOOK}",
            "EXECUTE mine",
            "SELECT set_config('app.firm_id', '{b}', true)",
            "EXECUTE mine",
        ),
        NOTHING_OF_A,
    ),
    _blind(
        "an error that only firm A's row would raise",
        "SELECT CASE WHEN title = '{secret}' THEN (title || firm_id)::int END FROM matters",
    ),
    _blind(
        "a division that only firm A's row would fail",
        "SELECT 1 FROM matters WHERE 1 / (CASE WHEN firm_id = '{a}' THEN 0 ELSE 1 END) > 0",
    ),
    _blind("a join", "SELECT m.firm_id FROM documents d FULL JOIN matters m ON true"),
    _blind(
        "MERGE",
        "MERGE INTO matters m USING (SELECT '{a}'::uuid AS firm) s ON m.firm_id = s.firm "
        "WHEN MATCHED THEN UPDATE SET title = 'seen' RETURNING m.firm_id",
    ),
    _denied(
        "MERGE that inserts",
        "MERGE INTO matters m USING (SELECT '{a}'::uuid AS firm) s ON false "
        "WHEN NOT MATCHED THEN INSERT (firm_id, title) VALUES (s.firm, 'forged')",
    ),
    _blind(
        "the texts of other sessions' statements",
        "SELECT query FROM pg_stat_activity WHERE application_name = 'firm A at work'",
    ),
)


def attempt(connection: Connection, scene: Scene, secret: str, statements: Sequence[str]) -> str:
    """Make the attempt and take it back; return what it came to."""
    told = {"{a}": str(scene.firm_a), "{b}": str(scene.firm_b), "{secret}": secret}

    def filled(statement: str) -> str:
        for name, value in told.items():
            statement = statement.replace(name, value)
        return statement

    *before, last = map(filled, statements)
    try:
        with connection.transaction(force_rollback=True):
            for statement in before:
                connection.execute(statement)
            cursor = connection.execute(last)
            rows: list[tuple[Any, ...]] = cursor.fetchall() if cursor.description else []
    except psycopg.errors.InsufficientPrivilege:
        return DENIED
    except psycopg.Error as error:
        told_of_a = any(value in str(error) for value in (secret, str(scene.firm_a)))
        return OF_A if told_of_a or error.sqlstate == "22012" else str(error.sqlstate)
    text = str(rows)
    return OF_A if secret in text or str(scene.firm_a) in text else NOTHING_OF_A


def tricks_section() -> str:
    """Return the tricks as the page shows them."""
    lines = ["| a session of firm B tries | it gets |", "|---|---|"]
    lines += [f"| {trick.title.replace('|', '/')} | {_told(trick)} |" for trick in TRICKS]
    return "\n".join(lines)


def _told(trick: Trick) -> str:
    known = {DENIED: "denied", NOTHING_OF_A: NOTHING_OF_A}
    return known.get(trick.comes_to, f"an error ({trick.comes_to})")
