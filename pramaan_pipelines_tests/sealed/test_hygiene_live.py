"""The same search through the files of a real daemon: storage, logs, what its processes print."""

from pathlib import Path

import pytest

from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.outbox.producers import create_matter
from pramaan_pipelines_tests.e2e.conftest import live, proxy
from pramaan_pipelines_tests.e2e.live import Live
from pramaan_pipelines_tests.sealed.day import hostile_bodies
from pramaan_pipelines_tests.sealed.planting import Haul, Plant
from pramaan_pipelines_tests.sealed.test_envelopes_on_the_rail import near_the_end
from pramaan_pipelines_tests.support.world import ENVIRONMENT, body

__all__ = ["live", "proxy"]
pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(600)]

SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
WRONG = "a wrong password"


def everything_below(*folders: Path) -> list[str]:
    """Return every file as text, whatever its format."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path.read_bytes().decode("latin-1") for path in files]


def test_no_file_of_a_daemon_holds_what_was_planted(live: Live, server: EmbeddedPostgres) -> None:
    """Its SQLite storage, compute logs and own log; and Postgres's log of the statements that fail.

    Two daemons: one that works off hostile messages, and one that Postgres does not let in.
    """
    plant, world = Plant(), live.world
    for name in SECRETS:
        live.variables[name] = plant.mark(name)
    url = live.variables["DATABASE_URL"]
    password = plant.know("the service's password", url.split(":")[2].split("@")[0])
    firm = world.firm_a
    with world.database.firm(firm) as connection:
        title = plant.mark("a matter's title")
        matter = create_matter(connection, firm_id=firm, title=title, environment=ENVIRONMENT)
    hostile = list(hostile_bodies(body(firm, world.matter(firm)), plant))
    for text in hostile:
        live.send(text)
    near_the_end(live.queue, len(hostile))
    with live.daemon():
        live.wait_until(lambda: world.runs(matter.matter_id), seconds=240)
        live.wait_until(lambda: live.queue.depth().total == 0, seconds=240)
    handled = len(live.runs())
    assert handled >= len(hostile)

    live.variables["DATABASE_URL"] = url.replace(password, plant.mark(WRONG))
    with live.daemon():
        live.wait_until(lambda: "password authentication failed" in live.log(), seconds=120)

    haul = Haul()
    haul.add("the daemon's files", *everything_below(live.home))
    haul.add("Postgres's log", *(text for text in everything_below(server.root) if "LOG:" in text))
    found = haul.found(plant)
    assert not found, "\n".join(haul.around(plant, *where) for where in sorted(found))
    assert str(matter.event_id) in "\n".join(haul.texts["the daemon's files"])
    assert "password authentication failed" in "\n".join(haul.texts["Postgres's log"])
