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
from pramaan_pipelines.store.roles import MAINTENANCE_ROLE

PROVISIONED: Final = (*QUEUE_SETTINGS, "EVENT_BUS_NAME")

ROLE: Final = text("""
    SELECT rolsuper OR rolbypassrls,
           EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                   WHERE c.relowner = r.oid AND n.nspname IN ('ops', 'agents'))
    FROM pg_roles r WHERE rolname = current_user
""")

ABSENT: Final = text("""
    SELECT name FROM unnest(ARRAY['ops.document_ingest_outbox', 'ops.domain_event_outbox',
                                  'ops.matter_frame_jobs', 'ops.outbox_replays',
                                  'agents.agent_run']) AS name
    WHERE to_regclass(name) IS NULL
""")

UNSEALED: Final = text("""
    SELECT n.nspname || '.' || c.relname
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE (n.nspname, c.relname) IN (
        ('ops', 'document_ingest_outbox'), ('ops', 'domain_event_outbox'),
        ('ops', 'matter_frame_jobs'), ('ops', 'outbox_replays'), ('agents', 'agent_run'))
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
    unprovisioned = [name for name in missing if name in PROVISIONED]
    if set(missing) - set(unprovisioned):
        return [Check("settings", passed=False, told=f"not set: {', '.join(missing)}. {HINT}")]
    try:
        settings = Settings.load()
    except PramaanError as error:
        return [Check("settings", passed=False, told=str(error))]
    told = f"not set: {', '.join(missing)}: `pramaan provision` writes them" if missing else ""
    checks = [Check("settings", passed=not missing, told=told or "all set")]
    reached = _check("database", _database, settings)
    checks.append(reached)
    for name, examine_one in (
        ("migrations", _migrations),
        ("row level security", _sealed),
        ("role", _role),
    ):
        checks.append(
            _check(name, examine_one, settings)
            if reached.passed
            else Check(name, passed=False, told="not checked: the database gives no connection")
        )
    if settings.maintenance_database_url is not None:
        checks.append(_check("maintenance role", _maintenance, settings))
    if not unprovisioned:
        checks.append(_check("queues and bus", _messaging, settings))
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


def _maintenance(settings: Settings) -> Iterator[str]:
    url = SecretStr(settings.require("maintenance_database_url"))
    (role,) = _rows(url, "SELECT current_user")
    if role != MAINTENANCE_ROLE:
        yield f"MAINTENANCE_DATABASE_URL is of the role {role}: pruning needs {MAINTENANCE_ROLE}"


def _migrations(settings: Settings) -> Iterator[str]:
    at, head = migrate.current(settings.database_url), migrate.head()
    if at is not None and at > head:
        yield f"the database is at {at}, newer than this code ({head}): deploy the newer code"
    elif at != head:
        yield f"the database is at {at or 'no revision'}, this code needs {head}: `pramaan migrate`"
    for table in _rows(settings.database_url, ABSENT.text):
        yield f"{table} is not there, whatever the revision says: restore it, or migrate anew"


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
        yield f"{problem}: `pramaan provision` (or `pramaan up`, where it is the embedded stack)"


def _rows(url: SecretStr, query: str) -> list[str]:
    engine = make_engine(url, pool_size=1)
    try:
        with transaction(engine) as connection:
            return [str(value) for value in connection.scalars(text(query))]
    finally:
        engine.dispose()
