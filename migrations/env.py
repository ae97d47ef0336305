"""Alembic's entry: as the owner, with our own version table, comparing only what is ours."""

from typing import Any

from alembic import context
from pydantic import SecretStr

from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import make_engine
from pramaan_pipelines.store.ledger import VERSION_TABLE
from pramaan_pipelines.store.tables import HOST_TABLES, METADATA


def include(obj: Any, _: str | None, kind: str, reflected: bool, compare_to: Any) -> bool:  # noqa: FBT001
    """Leave out what the application has beside us: its tables, and its columns on shared ones."""
    if not reflected or compare_to is not None:
        return True
    return kind != "table" and obj.table.name not in HOST_TABLES


def run() -> None:
    """Run the migrations on the URL that the caller gave, or on MIGRATION_DATABASE_URL."""
    url = context.config.attributes.get("url")
    if url is None:
        url = SecretStr(Settings.load().require("migration_database_url"))
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
                compare_server_default=False,
            )
            with context.begin_transaction():
                # One migration at a time, whoever starts it. A lock that is not had soon is an
                # error rather than a queue of the application's queries behind us.
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(4101977)")
                connection.exec_driver_sql("SET LOCAL lock_timeout = '10s'")
                context.run_migrations()
    finally:
        engine.dispose()


run()
