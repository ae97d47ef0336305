"""`pramaan doctor`: is everything there that the code location needs, and as it should be?

Promises: one line a check, with what to do about each that is red; it changes nothing.
Never: prints a secret, or stops at the first red check.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from boto3.session import Session
from botocore.exceptions import BotoCoreError
from pydantic import SecretStr
from sqlalchemy import Connection

from pramaan_pipelines.contracts.text import safe_text
from pramaan_pipelines.doctor import database, exported
from pramaan_pipelines.doctor.agent import agent_check
from pramaan_pipelines.doctor.check import WELL, Check, checked, unchecked
from pramaan_pipelines.errors import PramaanError
from pramaan_pipelines.messaging.verification import QUEUE_SETTINGS, stack_problems
from pramaan_pipelines.orchestration.storage import storage_problems
from pramaan_pipelines.settings import HINT, REQUIRED, Settings, missing_settings
from pramaan_pipelines.store.database import make_engine, transaction

__all__ = ["PROVISIONED", "WELL", "Check", "examine"]

PROVISIONED: Final = (*QUEUE_SETTINGS, "EVENT_BUS_NAME")

IN_POSTGRES: Final[dict[str, Callable[[Connection], Iterator[str]]]] = {
    "migrations": database.migration_problems,
    "row level security": database.row_security_problems,
    "role": database.role_problems,
    "grants": database.grant_problems,
    "clock": database.clock_problems,
}
ON_THIS_MACHINE: Final = ("http://127.0.0.1:", "http://localhost:")
"""Where the stand-in of AWS is, whose queues hide a message for less long than a lease."""


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
    checks += _postgres(settings)
    checks.append(checked("credentials", _credentials))
    if not unprovisioned:
        checks.append(checked("queues and bus", lambda: _messaging(settings)))
    if settings.pramaan_agent == "agentcore":
        checks.append(agent_check(settings))
    checks.append(_dagster(os.environ.get("DAGSTER_HOME")))
    well = WELL if exported.asked_for() else exported.NOTHING_ASKED
    checks.append(checked("telemetry", exported.export_problems, well))
    return checks


def _postgres(settings: Settings) -> Iterator[Check]:
    """Look at the database as the service, and as the maintenance role where that is set."""
    reached = checked("database", lambda: _reach(settings.database_url))
    yield reached
    for name, look in IN_POSTGRES.items():
        if reached.passed:
            yield checked(name, lambda look=look: _ask(settings.database_url, look))  # type: ignore[misc] # bound at once
        else:
            yield unchecked(name, "the database gives no connection")
    url = settings.maintenance_database_url
    if url is not None:
        yield checked("maintenance role", lambda: _ask(url, database.maintenance_problems))


def _reach(url: SecretStr) -> Iterator[str]:
    return _ask(url, lambda _: iter(()))


def _ask(url: SecretStr, look: Callable[[Connection], Iterator[str]]) -> Iterator[str]:
    with _connection(url) as connection:
        yield from look(connection)


@contextmanager
def _connection(url: SecretStr) -> Iterator[Connection]:
    engine = make_engine(url, pool_size=1)
    try:
        with transaction(engine) as connection:
            yield connection
    finally:
        engine.dispose()


def _credentials() -> Iterator[str]:
    """Look only whether there are any: whether AWS takes them is seen at the queues."""
    try:
        found = Session().get_credentials()
    except BotoCoreError as error:
        yield f"botocore cannot read them ({safe_text(error)}): mend its configuration"
        return
    if found is None:
        yield (
            "botocore finds none: give this process a role, a profile (AWS_PROFILE) or "
            "AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY"
        )


def _messaging(settings: Settings) -> Iterator[str]:
    outputs = {name: settings.require(name.lower()) for name in QUEUE_SETTINGS}
    outputs["EVENT_BUS_NAME"] = settings.require("event_bus_name")
    local = (settings.aws_endpoint_url or "").startswith(ON_THIS_MACHINE)
    least = None if local else settings.matter_frame_job_lease_seconds
    for problem in stack_problems(settings, outputs, hidden_longer_than_seconds=least):
        yield f"{problem}: `pramaan provision` (or `pramaan up`, where it is the embedded stack)"


def _dagster(home: str | None) -> Check:
    if not home:
        told = "DAGSTER_HOME is not set: `dagster dev` forgets its runs at the exit, `make dev` not"
        return Check("Dagster storage", passed=True, told=told)
    return checked("Dagster storage", lambda: storage_problems(Path(home)))
