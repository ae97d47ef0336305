"""No content and no secret stands anywhere that is stored or exported on the side.

Markers are planted wherever content and secrets stand; then everything that a run, a tick, a span,
a metric, a log or a command says is searched for them.
"""

import ast
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from pramaan_pipelines.contracts.envelopes import parse_matter_created
from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError
from pramaan_pipelines.contracts.trace import TRACESTATE as PATTERN
from pramaan_pipelines.errors import ScopeError
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import MAINTENANCE, OWNER
from pramaan_pipelines.orchestration import resources
from pramaan_pipelines.outbox.producers import create_matter
from pramaan_pipelines.store.database import Database, told_of
from pramaan_pipelines.telemetry.provider import Telemetry
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.sealed.day import (
    COMMANDS,
    ELSEWHERE,
    Day,
    commands,
    hostile_bodies,
    plant_content,
    plant_rows,
    send_with_attributes,
    weather,
)
from pramaan_pipelines_tests.sealed.planting import Haul, Plant, listening
from pramaan_pipelines_tests.sealed.test_envelopes_on_the_rail import near_the_end
from pramaan_pipelines_tests.support.aws import free_port
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.stub import Stub, error
from pramaan_pipelines_tests.support.world import ENVIRONMENT, body

TRACESTATE = "the tracestate of an event that is handled"
FIRM = "a firm's id"
ALLOWED = {
    # W3C's own free text, which travels with the trace: 512 printable characters of key=value.
    (TRACESTATE, "Dagster's runs"),
    (TRACESTATE, "Dagster's ticks"),
    (TRACESTATE, "spans"),
    # Ids by which runs are found; and the one span attribute that the registry requires.
    (FIRM, "Dagster's runs"),
    (FIRM, "Dagster's ticks"),
    (FIRM, "spans"),
}
SINKS = {"Dagster's runs", "Dagster's ticks", "process logs", "spans", "metrics", "commands"}
SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class LoudAgent:
    """A runtime that puts content into its error."""

    def __init__(self, said: str) -> None:
        self._said = said

    def invoke(self, _: object) -> None:
        raise ValueError(f"cannot frame the matter: {self._said}")


def password_of(url: str) -> str:
    return str(urlsplit(url).password)


@pytest.fixture
def day(
    rail: Rail,
    record: TelemetryRecord,
    server: EmbeddedPostgres,
    database_name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Day:
    """Everything planted, and the first message received."""
    plant, haul = Plant(), Haul()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Telemetry, "current", lambda _: record.telemetry)
    for name, role in (("MIGRATION", OWNER), ("MAINTENANCE", MAINTENANCE)):
        url = server.url(role, database_name)
        monkeypatch.setenv(f"{name}_DATABASE_URL", url)
        plant.know(f"the password of {role}", password_of(url))
    app_url = rail.settings.require("database_url")
    plant.know("the service's password", password_of(app_url))
    for name in SECRETS:
        monkeypatch.setenv(name, plant.mark(name))
    plant.know(FIRM, str(rail.world.firm_a))
    told = plant.mark(TRACESTATE)
    good = body(
        rail.world.firm_a,
        rail.world.matter(rail.world.firm_a),
        # The second is of the newer grammar, which the SDK would log for being none of its own.
        tracestate=f"vendor={told},2nd={told}",
    )
    rail.send(good)
    made = Day(rail, plant, haul, record, capsys, rail.receive())
    plant_content(made)
    plant_rows(made)
    return made


def nothing_is_found(day: Day) -> None:
    """Check that no sink holds a marker that it may not hold."""
    day.telemetry()
    leaks = day.haul.found(day.plant) - ALLOWED
    assert not leaks, "\n\n".join(
        f"{place} in {sink}: ...{day.haul.around(day.plant, place, sink)}"
        for place, sink in sorted(leaks)
    )


def is_refused(text: str) -> bool:
    """Tell whether a gate refuses it; what a wrapper says beside its detail is not looked at."""
    try:
        return parse_matter_created(text).environment != ENVIRONMENT
    except EnvelopeRefusedError:
        return True


@pytest.mark.usefixtures("no_pause")
def test_nothing_planted_is_found_on_a_day_with_hostile_messages_and_a_loud_agent(
    day: Day, monkeypatch: pytest.MonkeyPatch
) -> None:
    rail, plant = day.rail, day.plant
    firm = rail.world.firm_a
    with listening(day.haul):
        with rail.world.database.firm(firm) as connection:
            title = plant.mark("a matter's title")
            create_matter(connection, firm_id=firm, title=title, environment=ENVIRONMENT)
        hostile = list(hostile_bodies(body(firm, rail.world.matter(firm)), plant))
        rail.send(*hostile)
        near_the_end(rail.queue, len(hostile))
        send_with_attributes(day, body(firm, rail.world.matter(firm)))
        day.everything()
        day.work_off()
        with monkeypatch.context() as patch:
            loud = LoudAgent(plant.mark("an agent's error"))
            patch.setattr(resources, "LoggingAgent", lambda: loud)
            day.deliver(body(firm, rail.world.matter(firm)))
        day.everything()
    nothing_is_found(day)
    # Each sink was looked at, and holds what it should: what may be there is there.
    assert day.haul.found(plant) >= ALLOWED - {(TRACESTATE, "Dagster's ticks")}
    assert set(day.haul.texts) == SINKS
    # And what was planted stands where it belongs.
    assert rail.world.one("SELECT count(*) FROM matters WHERE title = %s", title) == 1
    letters = []
    while batch := rail.queue.dead_letters().receive(10, 0):
        letters += [letter.body for letter in batch]
    assert sorted(letters) == sorted(filter(is_refused, hostile))


@pytest.mark.parametrize(
    "foul",
    [
        "AWS refuses, and repeats what it was sent",
        "no Postgres",
        pytest.param("a wrong password", marks=pytest.mark.long),
        pytest.param("no AWS", marks=pytest.mark.long),
        pytest.param("a table is gone", marks=pytest.mark.long),
    ],
)
@pytest.mark.usefixtures("no_pause")
def test_nothing_planted_is_found_where_everything_fails(
    day: Day, stub: Stub, monkeypatch: pytest.MonkeyPatch, foul: str
) -> None:
    plant, settings = day.plant, day.rail.settings
    closed = free_port()
    environment: dict[str, str] = {}
    if foul.startswith("AWS refuses"):
        told = "; ".join(f"x-amz-security-token:{plant.mark(name)}" for name in SECRETS)
        stub.behaviour = lambda _: error(403, "SignatureDoesNotMatch", f"it was {told}")
        environment["AWS_ENDPOINT_URL"] = stub.endpoint_url
    elif foul == "no AWS":
        environment["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{closed}"
    elif foul == "no Postgres":
        password = plant.mark("a password on its way to no server")
        url = f"postgresql://pramaan_app:{password}@127.0.0.1:{closed}/pramaan"
        environment["DATABASE_URL"] = url
    elif foul == "a wrong password":
        url = settings.require("database_url")
        (right,) = (m for m, place in plant.places.items() if place == "the service's password")
        environment["DATABASE_URL"] = url.replace(right, plant.mark("a wrong password"))
    else:
        day.rail.world.god.execute("ALTER TABLE ops.matter_frame_jobs RENAME TO hidden")
    with listening(day.haul), weather(monkeypatch, **environment):
        day.everything()
    nothing_is_found(day)
    assert "error" in "\n".join(day.haul.texts["Dagster's runs"]).lower()


def test_a_marker_is_found_wherever_it_stands_in_a_sink() -> None:
    plant, haul = Plant(), Haul()
    marker = plant.mark("here")
    assert plant.mark("here") == marker
    haul.add("quiet", "nothing")
    assert haul.found(plant) == set()
    raised = ValueError("told apart")
    raised.__cause__ = KeyError(marker.upper())
    haul.add("errors", raised)
    assert haul.found(plant) == {("here", "errors")}
    assert marker.upper() in haul.around(plant, "here", "errors")


def test_every_command_is_typed_or_named_as_left_out() -> None:
    assert commands() == set(COMMANDS) | set(ELSEWHERE)
    assert not set(COMMANDS) & set(ELSEWHERE)


def test_a_tracestate_is_all_that_an_envelope_may_say_in_its_own_words() -> None:
    """Bounded to what W3C allows; every other field is an id, a closed word or a number."""
    for said in ("x" * 600, "k=" + "v" * 511, "no list", "k=\u00e9", "k=a\nb", "", "=v"):
        assert PATTERN.fullmatch(said) is None
        parsed = parse_matter_created(body(uuid4(), uuid4(), tracestate=said))
        assert parsed.tracestate is None
    longest = "k" * 255 + "=" + "v" * 256
    assert parse_matter_created(body(uuid4(), uuid4(), tracestate=longest)).tracestate == longest


def test_no_error_of_ours_carries_the_text_of_another(repository: Path) -> None:
    """Dagster stores what caused an error with it, and a service's error may repeat a token."""
    chained = {
        f"{path.name}:{node.lineno}"
        for path in (repository / "pramaan_pipelines").rglob("*.py")
        if "local" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise)
        and node.cause is not None
        and not (isinstance(node.cause, ast.Constant) and node.cause.value is None)
    }
    assert chained == set()


def test_an_error_that_nobody_here_has_worded_tells_its_place_and_not_its_text(
    database: Database,
) -> None:
    def told(error: BaseException) -> str:
        with pytest.raises(type(error)) as raised:
            raise error
        return told_of(raised.value)

    assert "test_hygiene.py:" in told(KeyError("Privileged"))
    assert "Privileged" not in told(KeyError("Privileged"))
    assert told(ConnectionError("the runtime is out")) == "the runtime is out"
    assert told(ScopeError("open a scope")) == "open a scope"
    for statement in ("SELECT CAST(:said AS uuid)", "SELECT CAST(:said AS timestamptz)"):
        with pytest.raises(DBAPIError) as refused, database.staff() as connection:
            connection.execute(text(statement), {"said": "Privileged"})
        assert "invalid input syntax for type" in told_of(refused.value)
        assert "Privileged" not in told_of(refused.value)
