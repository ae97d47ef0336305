"""Alembic's entry: as the owner, with our own version table, comparing only what is ours."""

from typing import Any

from alembic import context
from pydantic import SecretStr
from sqlalchemy import String

from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import make_engine
from pramaan_pipelines.store.later import do_what_is_left
from pramaan_pipelines.store.ledger import VERSION_TABLE
from pramaan_pipelines.store.migrate import Patience
from pramaan_pipelines.store.tables import HOST_TABLES, METADATA


def include(obj: Any, _: str | None, kind: str, reflected: bool, compare_to: Any) -> bool:  # noqa: FBT001
    """Leave out what the application has beside us: its tables, and its columns on shared ones."""
    if kind == "table":
        return not reflected or compare_to is not None
    if obj.table.name not in HOST_TABLES:
        return True
    if compare_to is None:
        # Whether event_id is unique is the migration's business: the application's name for it
        # need not be ours.
        return not reflected and kind != "unique_constraint"
    # A column that the application leaves nullable holds all that we write.
    return kind != "column" or obj.nullable or not compare_to.nullable


def differs(_: Any, __: Any, column: Any, found: Any, wanted: Any) -> bool | None:
    """Take the application's varchar for a text; None lets Alembic decide."""
    texts = isinstance(found, String) and isinstance(wanted, String)
    return False if texts and column.table.name in HOST_TABLES else None


def run() -> None:
    """Run the migrations on the URL that the caller gave, or on MIGRATION_DATABASE_URL."""
    url = context.config.attributes.get("url")
    if url is None:
        url = SecretStr(Settings.load().require("migration_database_url"))
    patience = context.config.attributes.get("patience", Patience())
    engine = make_engine(url, pool_size=1)
    try:
        with engine.connect() as connection:
            context.configure(
                connection=connection,
                target_metadata=METADATA,
                version_table=VERSION_TABLE,
                version_table_schema="public",
                include_schemas=True,
                include_object=include,
                compare_type=differs,
                compare_server_default=False,
            )
            with context.begin_transaction():
                # One migration at a time, whoever starts it. A lock that is not had soon is an
                # error rather than a queue of the application's queries behind us.
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(4101977)")
                milliseconds = int(1000 * patience.lock_seconds)
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = {milliseconds}")
                context.run_migrations()
                if not context.get_context().get_current_heads():
                    # Taken down to nothing, the database keeps nothing of ours.
                    connection.exec_driver_sql(f"DROP TABLE IF EXISTS public.{VERSION_TABLE}")
        with engine.connect() as connection:
            do_what_is_left(
                connection.execution_options(isolation_level="AUTOCOMMIT"),
                lock_seconds=patience.lock_seconds,
                build_seconds=patience.build_seconds,
            )
    finally:
        engine.dispose()


run()
