"""No secret is ever shown: every field of the settings, and every way in which one can be wrong.

The commands' last line of defence, which takes every known secret out of what they say, is off here
but where it is tested itself: what lies below must not need it.
"""

import io
import logging
import traceback
from collections.abc import Iterator
from uuid import uuid4

import pytest
from pydantic import SecretStr

from pramaan_pipelines import terminal
from pramaan_pipelines.cli import main
from pramaan_pipelines.errors import PramaanError, SettingsError
from pramaan_pipelines.settings import OTHER_SECRETS, SECRET_SETTINGS, Settings, known_secrets
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.support.aws import free_port

SECRET = "hunter2-Geheim"
IN_A_URL = f"https://user:{SECRET}@host.invalid/path"
ID = str(uuid4())

WRONG = {
    "no URL": SECRET,
    "another database": f"mysql://u:{SECRET}@127.0.0.1/d",
    "an at sign in the password": f"postgresql://u:{SECRET}@x@127.0.0.1/d",
    "a slash in the password": f"postgresql://u:x/{SECRET}@127.0.0.1/d",
    "a port that is a word": f"postgresql://u:{SECRET}@127.0.0.1:port/d",
    "the password as the port": f"postgresql://u:127.0.0.1:{SECRET}/d",
    "a port too high": f"postgresql://u:{SECRET}@127.0.0.1:99999/d",
    "half an address": f"postgresql://u:{SECRET}@[::1/d",
    "nobody there": f"postgresql://u:{SECRET}@127.0.0.1:{{port}}/d",
    "no such host": f"postgresql://u:{SECRET}@no-such-host.invalid/d",
    "an option that is none": f"postgresql://u:{SECRET}@127.0.0.1:{{port}}/d?such={SECRET}",
    "the password as an option": f"postgresql://127.0.0.1:{{port}}/d?password={SECRET}",
    "a wrong password": f"postgresql://pramaan_app:{SECRET}@{{server}}",
    "a role that is not there": f"postgresql://nobody_of_that_name:{SECRET}@{{server}}",
}
USERS = {
    "DATABASE_URL": (
        ["doctor"],
        ["status"],
        ["seed"],
        ["redrive", "document_ingest_relay"],
        ["dead-letters"],
        ["rebuild", "--firm", ID, "--matter", ID],
    ),
    "MIGRATION_DATABASE_URL": (["migrate"],),
    "MAINTENANCE_DATABASE_URL": (["prune"], ["doctor"]),
}
"""The commands that open a connection with it."""


@pytest.fixture
def given(app_url: SecretStr, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that works without AWS."""
    monkeypatch.setenv("PRAMAAN_ENVIRONMENT", "test")
    monkeypatch.setenv("DATABASE_URL", app_url.get_secret_value())


@pytest.fixture
def last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "known_secrets", lambda _: [])


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """Everything that is logged anywhere, at every level that is on."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    yield stream
    logging.getLogger().removeHandler(handler)


def test_the_settings_that_are_secret_are_those_with_a_password() -> None:
    assert set(SECRET_SETTINGS) >= set(USERS)
    named = [name for name in Settings.model_fields if name.endswith("database_url")]
    assert {name.upper() for name in named} == set(USERS)


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", USERS)
@pytest.mark.usefixtures("given", "last_line")
def test_a_secret_setting_that_is_wrong_in_any_way_is_never_shown(
    app_url: SecretStr,
    name: str,
    wrong: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    logged: io.StringIO,
) -> None:
    server = app_url.get_secret_value().rpartition("@")[2]
    value = WRONG[wrong].format(port=free_port(), server=server)
    monkeypatch.setenv(name, value)
    settings = Settings.load()
    for shown in (repr(settings), str(settings), settings.model_dump_json()):
        assert SECRET not in shown
    for command in USERS[name]:
        for debug in ([], ["--debug"]):
            code = main([*debug, *command])
            said = capsys.readouterr()
            assert code == 1, (command, said)
            assert SECRET not in said.out + said.err, command
    assert SECRET not in logged.getvalue()
    with pytest.raises((PramaanError, Exception)) as caught:
        Database.connect(SecretStr(value)).ping()
    told = [caught.value, caught.value.__cause__]
    assert all(SECRET not in str(error) and SECRET not in repr(error) for error in told)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("value", [SECRET, IN_A_URL], ids=["bare", "in a URL"])
@pytest.mark.parametrize("name", Settings.model_fields)
@pytest.mark.usefixtures("given", "last_line")
def test_no_field_shows_a_password_that_was_put_into_it(
    name: str,
    value: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    logged: io.StringIO,
) -> None:
    """A bare word may be a name, which is shown; what stands as a password in a URL never is."""
    monkeypatch.setenv(name.upper(), value)
    may_be_a_name = value == SECRET and name.upper() not in SECRET_SETTINGS
    try:
        settings = Settings.load()
    except SettingsError as error:
        shown = ["".join(traceback.format_exception(error))]
    else:
        shown = [repr(settings), str(settings), settings.model_dump_json()]
        if may_be_a_name:
            return
    assert not any(SECRET in text for text in shown)
    for arguments in (["doctor"], ["--debug", "doctor", "--json"], ["--debug", "status"]):
        main(arguments)
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err, arguments
    assert SECRET not in logged.getvalue()


@pytest.mark.usefixtures("last_line")
@pytest.mark.parametrize("name", OTHER_SECRETS)
def test_aws_credentials_are_not_shown_when_the_endpoint_is_down_or_they_are_refused(
    configured: Settings,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    logged: io.StringIO,
) -> None:
    del configured
    monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    for arguments in (["doctor"], ["--debug", "dead-letters"], ["--debug", "provision"]):
        assert main(arguments) == 1
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err
    assert SECRET not in logged.getvalue()


def test_what_a_command_says_has_no_secret_of_the_environment_in_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://u:p%40ss%2Fw0rd@h/d")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    def breaks(*_: object) -> object:
        # A text of ours is shown; what it was given is not ours.
        raise SettingsError(f"p@ss/w0rd and p%40ss%2Fw0rd and {SECRET}")

    monkeypatch.setattr(Settings, "load", breaks)
    for arguments in (["redrive", "document_ingest_relay"], ["--debug", "prune"]):
        assert main(arguments) == 1
        said = capsys.readouterr()
        assert "<removed> and <removed> and <removed>" in said.err


def test_the_known_secrets_are_told_longest_first_and_short_words_are_left_alone() -> None:
    environment = {
        "DATABASE_URL": "postgresql://u:long-password@h/d",
        "MIGRATION_DATABASE_URL": "postgresql://u:short@h/d",
        "AWS_SECRET_ACCESS_KEY": "test",
        "EVENT_BUS_NAME": "pramaan-events-staging",
        "OTEL_EXPORTER_OTLP_HEADERS": "tenant=a, authorization=Basic%20token",
    }
    assert known_secrets(environment) == [
        environment["DATABASE_URL"],
        environment["MIGRATION_DATABASE_URL"],
        "Basic%20token",
        "long-password",
        "Basic token",
    ]
    assert known_secrets({}) == []
