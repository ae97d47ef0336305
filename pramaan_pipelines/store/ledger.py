"""What a migration did, written down with how to undo it.

Promises: an object that exists is left as it is; one that is absent is made, and the statement that
removes it is recorded in the same transaction; a downgrade runs exactly those statements, newest
first. So the pipeline installs beside the real application and leaves it as it was found. What has
to read a whole table that was there before is recorded too, and done after the commit, beside the
table's writers (`store.later`).
Never: drops or changes what it did not make; builds an index on, or scans, a table that others may
be writing to while it is locked.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from alembic import op
from sqlalchemy import Connection, text

from pramaan_pipelines.errors import SchemaError

LEDGER_TABLE: Final = "pramaan_pipelines_ledger"
VERSION_TABLE: Final = "pramaan_pipelines_version"
_MADE: Final = "pramaan_pipelines_made"


class Ledger:
    """The ledger as one revision sees it."""

    def __init__(self, revision: str) -> None:
        self._revision = revision
        # No parameters means no placeholders: a % in a constraint of the application's stays a %.
        self._connection: Connection = op.get_bind().execution_options(no_parameters=True)
        self._connection.execute(
            text(f"""
            CREATE TABLE IF NOT EXISTS public.{LEDGER_TABLE} (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                revision text NOT NULL,
                undo text NOT NULL,
                later text
            )""")
        )
        # A ledger of an early version lacks it.
        self._connection.execute(
            text(f"ALTER TABLE public.{LEDGER_TABLE} ADD COLUMN IF NOT EXISTS later text")
        )

    def run(self, do: str, undo: str | None) -> None:
        """Execute `do` and record `undo`; None where there is nothing to undo."""
        self._connection.exec_driver_sql(do)
        if undo is not None:
            self.on_undo(undo)

    def on_undo(self, statement: str) -> None:
        """Record a statement for the downgrade."""
        self._record(statement, None)

    def after_commit(self, do: str, undo: str) -> None:
        """Record `do` for after the commit, outside of a transaction, and `undo`.

        Args:
            do: one of the statements that `store.later` knows.
            undo: also where `do` was not reached.
        """
        self._record(undo, do)

    def _record(self, undo: str, later: str | None) -> None:
        self._connection.execute(
            text(
                f"INSERT INTO public.{LEDGER_TABLE} (revision, undo, later) "  # noqa: S608
                "VALUES (:revision, :undo, :later)"
            ),
            {"revision": self._revision, "undo": undo, "later": later},
        )

    def is_new(self, table: str) -> bool:
        """Tell whether this transaction made `table`: then nobody else can be at it."""
        return table in self._connection.info.get(_MADE, ())

    def undo(self) -> None:
        """Run what this revision recorded, newest first, and forget it.

        A table is dropped with the rows in it: what the pipeline made, it takes along.
        """
        rows = self._connection.execute(
            text(
                f"DELETE FROM public.{LEDGER_TABLE} "  # noqa: S608
                "WHERE revision = :revision RETURNING id, undo"
            ),
            {"revision": self._revision},
        ).all()
        for _, statement in sorted(rows, reverse=True):
            self._connection.exec_driver_sql(statement)

    def exists(self, query: str, **parameters: object) -> bool:
        """Tell whether `query` returns a row."""
        return self._connection.execute(text(query), parameters).first() is not None

    def rows(self, query: str, **parameters: object) -> Sequence[tuple[str, ...]]:
        """Return the rows of `query` as tuples of text."""
        found = self._connection.execute(text(query), parameters).all()
        return [tuple(str(value) for value in row) for row in found]

    def schema(self, name: str) -> None:
        """Make the schema `name` where it is absent."""
        if not self.exists("SELECT 1 FROM pg_namespace WHERE nspname = :name", name=name):
            self.run(f"CREATE SCHEMA {name}", f"DROP SCHEMA {name}")

    def absent(self, table: str) -> bool:
        """Tell whether there is no `table` yet."""
        return not self.exists("SELECT 1 WHERE to_regclass(:name) IS NOT NULL", name=table)

    def table(self, name: str, columns: Mapping[str, str], constraints: Sequence[str] = ()) -> bool:
        """Make the table `name`, or add to an existing one the columns that it lacks.

        Args:
            name: schema and table.
            columns: each column's definition by its name.
            constraints: what else the table is made with; an existing table keeps its own.

        Returns:
            True when the table was made here.
        """
        if self.absent(name):
            parts = [*(f"{column} {ddl}" for column, ddl in columns.items()), *constraints]
            self.run(f"CREATE TABLE {name} ({', '.join(parts)})", f"DROP TABLE {name}")
            self._connection.info.setdefault(_MADE, set()).add(name)
            return True
        for column, ddl in columns.items():
            self.column(name, column, ddl)
        return False

    def column(self, table: str, column: str, ddl: str) -> None:
        """Add `column` to `table` where it is absent."""
        if not self.exists(
            "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(:table) "
            "AND attname = :name AND NOT attisdropped",
            table=table,
            name=column,
        ):
            self.run(
                f"ALTER TABLE {table} ADD COLUMN {column} {ddl}",
                f"ALTER TABLE {table} DROP COLUMN {column}",
            )

    def index(self, schema: str, name: str, definition: str, *, unique: bool = False) -> None:
        """Make the index `name` on `definition` (`table (columns) WHERE ...`).

        One that a build left invalid is none.
        """
        if self.exists(
            "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(:n) AND indisvalid",
            n=f"{schema}.{name}",
        ):
            return
        kind = "UNIQUE INDEX" if unique else "INDEX"
        if self.is_new(definition.split(maxsplit=1)[0]):
            self.run(f"CREATE {kind} {name} ON {definition}", f"DROP INDEX {schema}.{name}")
        else:
            self.after_commit(
                f"CREATE {kind} CONCURRENTLY {name} ON {definition}",
                f"DROP INDEX IF EXISTS {schema}.{name}",
            )

    def check(self, table: str, name: str, expression: str) -> None:
        """Add the CHECK constraint `name`."""
        if not self.exists(
            "SELECT 1 FROM pg_constraint WHERE conrelid = to_regclass(:table) AND conname = :name",
            table=table,
            name=name,
        ):
            self.run(
                f"ALTER TABLE {table} ADD CONSTRAINT {name} {self.unread(table, expression)}",
                f"ALTER TABLE {table} DROP CONSTRAINT {name}",
            )
            self.validate_later(table, name)

    def unread(self, table: str, expression: str) -> str:
        """Return the CHECK of `expression`, for which no row that is there already is read."""
        return f"CHECK ({expression})" + ("" if self.is_new(table) else " NOT VALID")

    def validate_later(self, table: str, name: str) -> None:
        """Read the rows that were there before the CHECK `name`, after the commit."""
        if not self.is_new(table):
            self.after_commit(f"ALTER TABLE {table} VALIDATE CONSTRAINT {name}", "SELECT 1")

    def unique(self, table: str, name: str, column: str) -> None:
        """Make `column` unique by itself, where neither a constraint nor an index does so yet."""
        if not self.exists(
            "SELECT 1 FROM pg_index i JOIN pg_attribute a "
            "ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
            "WHERE i.indrelid = to_regclass(:table) AND i.indisunique AND i.indpred IS NULL "
            "AND i.indnkeyatts = 1 AND a.attname = :column",
            table=table,
            column=column,
        ):
            undo = f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}"
            if self.is_new(table):
                self.run(f"ALTER TABLE {table} ADD CONSTRAINT {name} UNIQUE ({column})", undo)
                return
            self.after_commit(
                f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON {table} ({column})",
                f"DROP INDEX IF EXISTS {table.split('.', maxsplit=1)[0]}.{name}",
            )
            self.after_commit(
                f"ALTER TABLE {table} ADD CONSTRAINT {name} UNIQUE USING INDEX {name}", undo
            )

    def force_row_security(self, table: str) -> None:
        """Enable and force row level security, so that the owner too is under the policies."""
        on, forced = self.rows(
            "SELECT relrowsecurity, relforcerowsecurity FROM pg_class "
            "WHERE oid = to_regclass(:table)",
            table=table,
        )[0]
        if on == "False":
            self.run(
                f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
                f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY",
            )
        if forced == "False":
            self.run(
                f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
                f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY",
            )

    def policy(self, table: str, name: str, definition: str) -> None:
        """Make the policy `name` (`FOR ... USING (...) WITH CHECK (...)`)."""
        if not self.exists(
            "SELECT 1 FROM pg_policy WHERE polrelid = to_regclass(:table) AND polname = :name",
            table=table,
            name=name,
        ):
            self.run(
                f"CREATE POLICY {name} ON {table} {definition}", f"DROP POLICY {name} ON {table}"
            )

    def grant(self, role: str, table: str, privilege: str, columns: Sequence[str] = ()) -> None:
        """Grant `privilege` on `table`, or on those of `columns`, where `role` lacks it."""
        if self.exists(
            "SELECT 1 WHERE has_table_privilege(:role, to_regclass(:table)::oid, :privilege)",
            role=role,
            table=table,
            privilege=privilege,
        ):
            return
        lacking = [column for column in columns if not self._has(role, table, column, privilege)]
        if columns and not lacking:
            return
        what = f"{privilege} ({', '.join(lacking)})" if columns else privilege
        self.run(f"GRANT {what} ON {table} TO {role}", f"REVOKE {what} ON {table} FROM {role}")

    def _has(self, role: str, table: str, column: str, privilege: str) -> bool:
        return self.exists(
            "SELECT 1 WHERE has_column_privilege(:role, to_regclass(:table)::oid, :name, :what)",
            role=role,
            table=table,
            name=column,
            what=privilege,
        )

    def revoke(self, role: str, table: str, privilege: str) -> None:
        """Take `privilege` on `table` away from `role`, where it was granted to it."""
        if self.exists(
            "SELECT 1 FROM pg_class c, aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee "
            "WHERE c.oid = to_regclass(:table) AND r.rolname = :role "
            "AND a.privilege_type = :privilege",
            table=table,
            role=role,
            privilege=privilege,
        ):
            self.run(
                f"REVOKE {privilege} ON {table} FROM {role}",
                f"GRANT {privilege} ON {table} TO {role}",
            )

    def grant_usage(self, role: str, schema: str) -> None:
        """Let `role` look into `schema`."""
        if not self.exists(
            "SELECT 1 WHERE has_schema_privilege(:role, :schema, 'USAGE')", role=role, schema=schema
        ):
            self.run(
                f"GRANT USAGE ON SCHEMA {schema} TO {role}",
                f"REVOKE USAGE ON SCHEMA {schema} FROM {role}",
            )

    def login_role(self, name: str) -> None:
        """Make the role `name` where it is absent, without a password and without any privilege.

        A role belongs to the whole server, so a downgrade of one database leaves it.

        Raises:
            SchemaError: the role exists and could see past row level security.
        """
        if self.exists(
            "SELECT 1 FROM pg_roles WHERE rolname = current_user AND NOT rolcreaterole "
            "AND NOT rolsuper AND NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = :name)",
            name=name,
        ):
            raise SchemaError(
                f"role {name} is absent and the migrating role may not create roles: "
                f"CREATE ROLE {name} LOGIN NOSUPERUSER NOBYPASSRLS as an administrator, or give "
                "the migrating role CREATEROLE, then migrate again"
            )
        # Two databases of one server may migrate at once; the loser finds the role made.
        self.run(
            f"""
            DO $$ BEGIN
                IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{name}') THEN
                    CREATE ROLE {name} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE;
                END IF;
            EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
            END $$""",  # noqa: S608
            None,
        )
        if self.exists(
            "SELECT 1 FROM pg_roles WHERE rolname = :name AND (rolsuper OR rolbypassrls)", name=name
        ):
            raise SchemaError(
                f"role {name} is a superuser or bypasses row level security: "
                f"ALTER ROLE {name} NOSUPERUSER NOBYPASSRLS, then migrate again"
            )
