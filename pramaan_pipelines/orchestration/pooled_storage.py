"""Dagster's storage in Postgres, with its connections kept between two statements.

dagster-postgres opens a connection for every event that it writes and every row that it reads, some
150 for a framer run of 75 events; each costs Postgres a process. Its tables, its configuration and
everything else are as they are there, so that the two can take turns on one database.

Promises: a connection that died while it was idle is found before it is used, and made anew.
Never: makes a caller wait for another's connection, or keeps one beyond its instance.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

from dagster._serdes import ConfigurableClassData
from dagster_postgres.storage import DagsterPostgresStorage
from dagster_postgres.utils import (
    create_pg_connection,
    create_pg_engine,
    get_token_provider_from_config,
    pg_url_from_config,
)
from sqlalchemy import Engine, text

KEPT: Final = 4
"""Connections of one process that outlive their use; most processes only ever need one."""

TABLES: Final = ("runs", "instance_info", "event_logs", "jobs")
"""What each part of the storage looks for before it makes its tables."""

RECYCLE_SECONDS: Final = 1800
"""Well under what firewalls and proxies forget a silent connection after."""


class PooledPostgresStorage(DagsterPostgresStorage):
    """What `storage: postgres:` is, with a pool instead of a connection for each use.

    Named in dagster.yaml as `storage: custom:` with this module and class; `config` takes what
    `postgres:` takes.
    """

    def __init__(
        self, postgres_url: str, *, should_autocreate_tables: bool = True, **more: Any
    ) -> None:
        engine = create_pg_engine(
            postgres_url,
            more.get("token_provider"),
            isolation_level="AUTOCOMMIT",
            pool_size=KEPT,
            max_overflow=-1,
            pool_pre_ping=True,
            pool_recycle=RECYCLE_SECONDS,
        )
        super().__init__(
            postgres_url,
            # Dagster's own look at this takes a connection and a list of all tables, three times.
            should_autocreate_tables=should_autocreate_tables and not _made(engine),
            **more,
        )
        for part in (self._run_storage, self._event_log_storage, self._schedule_storage):
            # As `optimize_for_webserver` does, which has no ping and makes a pool for each part.
            part._engine = engine  # noqa: SLF001
        # Every tick has an instance of its own: what it kept ends with it, not with a collection.
        self._run_storage.dispose = engine.dispose  # type: ignore[method-assign]

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> Self:
        """Return the storage that dagster.yaml describes; Dagster calls this."""
        return cls(
            pg_url_from_config(config_value),
            should_autocreate_tables=config_value.get("should_autocreate_tables", True),
            inst_data=inst_data,
            token_provider=get_token_provider_from_config(config_value),
        )


def _made(engine: Engine) -> bool:
    query = text("SELECT count(to_regclass(name)) FROM unnest(:tables) AS name")
    with create_pg_connection(engine) as connection:
        there: int | None = connection.scalar(query, {"tables": [*TABLES]})
    return there == len(TABLES)
