"""Where the instance keeps runs, events and ticks: is it there, and as this Dagster needs it?

Promises: looks without making anything: no file, no table; what is not there yet is told.
Never: shows the storage's configuration, which may hold a password.
"""

import json
from pathlib import Path
from typing import Any, Final

from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.base_storage import DagsterStorage
from pydantic import SecretStr

from pramaan_pipelines.store.database import make_engine, transaction

MIGRATE: Final = "`dagster instance migrate`"


def storage_problems(home: Path) -> list[str]:
    """Return what is wrong with the storage of the instance at `home`; nothing where all is well.

    Args:
        home: DAGSTER_HOME.

    Raises:
        DatabaseUnavailableError: the storage is in Postgres, which gives no connection.
        SettingsError: its URL is not one of Postgres.
    """
    if not home.is_dir():
        return [f"DAGSTER_HOME is {home}, which is no folder: make it, with a dagster.yaml in it"]
    try:
        storage = _storage(home)
    except Exception as error:  # noqa: BLE001 - whatever it is, its text may quote the file
        return [
            f"dagster.yaml in DAGSTER_HOME cannot be used ({type(error).__name__}): "
            "`dagster instance info` says where it is wrong"
        ]
    if storage is None:
        return []  # The first start of a daemon or webserver makes it.
    url = getattr(storage.run_storage, "postgres_url", None)
    if url is not None:
        _reach(SecretStr(url))
    return [
        problem
        for name, part in (
            ("runs", storage.run_storage),
            ("events", storage.event_log_storage),
            ("schedules", storage.schedule_storage),
        )
        for problem in _revision_problems(name, part.alembic_version())
    ]


def _storage(home: Path) -> Any | None:
    """Return the storage, set to make nothing; None where it is a folder with nothing in it yet."""
    data = InstanceRef.from_dir(str(home)).storage_data
    assert data is not None, "every instance has a storage"  # noqa: S101
    options: dict[str, Any] = dict(data.config_dict)
    if "base_dir" in options and not Path(options["base_dir"], "history", "runs.db").is_file():
        return None
    if "postgres_url" in options or "postgres_db" in options:
        options["should_autocreate_tables"] = False
    made = data._replace(config_yaml=json.dumps(options))  # JSON is YAML
    return made.rehydrate(as_type=DagsterStorage)  # type: ignore[type-abstract] # what it must be


def _reach(url: SecretStr) -> None:
    # Dagster would try for ten seconds; one try tells as much.
    engine = make_engine(url, pool_size=1)
    try:
        with transaction(engine):
            pass
    finally:
        engine.dispose()


def _revision_problems(name: str, revisions: tuple[Any, Any] | None) -> list[str]:
    at, head = revisions or (None, None)
    if at is None:
        return [f"the storage of {name} is not made yet: start the daemon, or {MIGRATE}"]
    if at != head:
        return [f"the storage of {name} is at {at}, this Dagster needs {head}: {MIGRATE}"]
    return []
