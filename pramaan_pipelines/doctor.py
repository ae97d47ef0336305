"""`pramaan doctor`: is everything there that the code location needs, and as it should be?

Promises: one line a check, with what to do about each that is red; it changes nothing.
Never: prints a secret, or stops at the first red check.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import SecretStr
from sqlalchemy import text

from pramaan_pipelines.contracts.text import safe_text
from pramaan_pipelines.errors import PramaanError
from pramaan_pipelines.messaging.verification import QUEUE_SETTINGS, stack_problems
from pramaan_pipelines.settings import HINT, REQUIRED, Settings, missing_settings
from pramaan_pipelines.store import migrate
from pramaan_pipelines.store.database import make_engine, transaction

ROLE: Final = text("""
    SELECT rolsuper OR rolbypassrls,
           EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE c.relowner = r.oid AND n.nspname IN ('ops', 'agents'))
    FROM pg_roles r WHERE rolname = current_user
""")

UNSEALED: Final = text("""
    SELECT n.nspname || '.' || c.relname
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE (n.nspname, c.relname) IN (
        ('ops', 'document_ingest_outbox'), ('ops', 'domain_event_outbox'),
        ('ops', 'matter_frame_jobs'), ('agents', 'agent_run'))
      AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
    ORDER BY 1
""")


@dataclass(frozen=True)
class Check:
    """One check: its name, whether it passed, and what was found or is to be done."""

    name: str
    passed: bool
    told: str


def examine() -> list[Check]:
    """Run every check; one that cannot be made is red and says why."""
    missing = missing_settings(os.environ, REQUIRED)
    if missing:
        return [Check("settings", passed=False, told=f"not set: {', '.join(missing)}. {HINT}")]
    try:
        settings = Settings.load()
    except PramaanError as error:
        return [Check("settings", passed=False, told=str(error))]
    checks = [Check("settings", passed=True, told="all set")]
    for name, examine_one in (
        ("database", _database),
        ("migrations", _migrations),
        ("row level security", _sealed),
        ("role", _role),
        ("queues and bus", _messaging),
    ):
        checks.append(_check(name, examine_one, settings))
    return checks


def _check(
    name: str, examine_one: Callable[[Settings], Iterator[str]], settings: Settings
) -> Check:
    try:
        problems = list(examine_one(settings))
    except PramaanError as error:
        problems = [str(error)]
    except Exception as error:  # noqa: BLE001 - a check that breaks is a red check
        problems = [f"could not be checked: {type(error).__name__}: {safe_text(error)}"]
    return Check(name, passed=not problems, told="; ".join(problems) or "as it should be")


def _database(settings: Settings) -> Iterator[str]:
    yield from _rows(settings.database_url, "SELECT 1 WHERE false")


def _migrations(settings: Settings) -> Iterator[str]:
    at, head = migrate.current(settings.database_url), migrate.head()
    if at != head:
        yield f"the database is at {at or 'no revision'}, this code needs {head}: `pramaan migrate`"


def _sealed(settings: Settings) -> Iterator[str]:
    for table in _rows(settings.database_url, UNSEALED.text):
        yield f"{table} does not force row level security: `pramaan migrate`, or ALTER TABLE it"


def _role(settings: Settings) -> Iterator[str]:
    engine = make_engine(settings.database_url, pool_size=1)
    try:
        with transaction(engine) as connection:
            unbound, owns = connection.execute(ROLE).one()
    finally:
        engine.dispose()
    if unbound:
        yield "DATABASE_URL's role is a superuser or bypasses row level security: use pramaan_app"
    if owns:
        yield "DATABASE_URL's role owns tables: use pramaan_app, which owns nothing"


def _messaging(settings: Settings) -> Iterator[str]:
    outputs = {name: settings.require(name.lower()) for name in QUEUE_SETTINGS}
    outputs["EVENT_BUS_NAME"] = settings.require("event_bus_name")
    for problem in stack_problems(settings, outputs):
        yield f"{problem}: `pramaan provision`"


def _rows(url: SecretStr, query: str) -> list[str]:
    engine = make_engine(url, pool_size=1)
    try:
        with transaction(engine) as connection:
            return [str(value) for value in connection.scalars(text(query))]
    finally:
        engine.dispose()
