"""The settings: what is missing is named with what to do, and a secret is never shown."""

import traceback
from pathlib import Path

import pytest

from pramaan_pipelines.errors import PramaanError, SettingsError
from pramaan_pipelines.settings import HINT, REQUIRED, Settings, ViewSettings, missing_settings

SECRET = "hunter2-Secret"
COMPLETE = {
    "PRAMAAN_ENVIRONMENT": "staging",
    "DATABASE_URL": f"postgresql://pramaan_app:{SECRET}@db/pramaan",
    "MIGRATION_DATABASE_URL": f"postgresql://pramaan_owner:{SECRET}@db/pramaan",
    "DOCUMENT_INGESTION_QUEUE_URL": "https://sqs.example/1/ingestion",
    "DOCUMENT_REGISTRATION_QUEUE_URL": "https://sqs.example/1/registration",
    "FRAMER_EVENTS_QUEUE_URL": "https://sqs.example/1/framer",
    "EVENT_BUS_NAME": "pramaan-events-staging",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A complete environment and nothing else of ours."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in COMPLETE.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_the_names_are_those_of_the_stories_and_the_defaults_stand() -> None:
    settings = Settings.load()
    assert settings.pramaan_environment == "staging"
    assert settings.database_url.get_secret_value() == COMPLETE["DATABASE_URL"]
    assert settings.document_ingestion_queue_url == COMPLETE["DOCUMENT_INGESTION_QUEUE_URL"]
    assert settings.document_registration_queue_url == COMPLETE["DOCUMENT_REGISTRATION_QUEUE_URL"]
    assert settings.framer_events_queue_url == COMPLETE["FRAMER_EVENTS_QUEUE_URL"]
    assert settings.event_bus_name == COMPLETE["EVENT_BUS_NAME"]
    assert settings.matter_frame_job_lease_seconds == 900
    assert settings.aws_endpoint_url is None
    assert set(REQUIRED) <= {name.upper() for name in Settings.model_fields}


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize("name", ["PRAMAAN_ENVIRONMENT", "DATABASE_URL"])
def test_what_is_missing_is_named_with_what_to_do(
    environment: pytest.MonkeyPatch, name: str, value: str | None
) -> None:
    if value is None:
        environment.delenv(name)
    else:
        environment.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        Settings.load()
    assert f"{name} is not set." in str(caught.value)
    assert HINT in str(caught.value)


def test_everything_that_is_missing_is_named_at_once(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("PRAMAAN_ENVIRONMENT")
    environment.delenv("DATABASE_URL")
    with pytest.raises(SettingsError, match=r"(?s)PRAMAAN_ENVIRONMENT.*DATABASE_URL"):
        Settings.load()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PRAMAAN_ENVIRONMENT", SECRET),
        ("PRAMAAN_ENVIRONMENT", "-staging"),
        ("PRAMAAN_ENVIRONMENT", "staging\n"),
        ("PRAMAAN_ENVIRONMENT", "s" * 32),
        ("MATTER_FRAME_JOB_LEASE_SECONDS", SECRET),
        ("MATTER_FRAME_JOB_LEASE_SECONDS", "0"),
        ("MATTER_FRAME_JOB_LEASE_SECONDS", "-1"),
        ("MATTER_FRAME_JOB_LEASE_SECONDS", "86401"),
        ("PRAMAAN_AGENT", SECRET),
    ],
)
def test_what_is_unusable_is_named_and_not_shown(
    environment: pytest.MonkeyPatch, name: str, value: str
) -> None:
    environment.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        Settings.load()
    assert f"{name} is unusable" in str(caught.value)
    assert HINT in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert isinstance(caught.value, PramaanError)


def test_an_error_about_one_setting_does_not_show_the_secrets_of_another(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("MATTER_FRAME_JOB_LEASE_SECONDS", "soon")
    with pytest.raises(SettingsError) as caught:
        Settings.load()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_no_form_of_the_settings_shows_a_secret() -> None:
    settings = Settings.load()
    for shown in (repr(settings), str(settings), settings.model_dump_json(), f"{settings!s}"):
        assert SECRET not in shown
        assert "staging" in shown


@pytest.mark.parametrize("value", [None, ""])
def test_what_a_command_cannot_do_without_is_named_when_it_asks(
    environment: pytest.MonkeyPatch, value: str | None
) -> None:
    environment.delenv("MIGRATION_DATABASE_URL")
    if value is not None:
        environment.setenv("MIGRATION_DATABASE_URL", value)
    with pytest.raises(SettingsError, match="MIGRATION_DATABASE_URL is not set") as caught:
        Settings.load().require("migration_database_url")
    assert HINT in str(caught.value)


def test_a_setting_that_is_required_comes_as_it_was_set() -> None:
    settings = Settings.load()
    assert settings.require("migration_database_url") == COMPLETE["MIGRATION_DATABASE_URL"]
    assert settings.require("event_bus_name") == "pramaan-events-staging"


def test_missing_settings_are_listed_in_the_order_of_the_question() -> None:
    assert missing_settings({**COMPLETE, "EVENT_BUS_NAME": ""}, REQUIRED) == ["EVENT_BUS_NAME"]
    assert missing_settings({}, REQUIRED) == list(REQUIRED)
    assert missing_settings(COMPLETE, REQUIRED) == []


def test_settings_do_not_change_after_they_are_read(environment: pytest.MonkeyPatch) -> None:
    settings = Settings.load()
    environment.setenv("EVENT_BUS_NAME", "another")
    assert settings.event_bus_name == "pramaan-events-staging"
    with pytest.raises(ValueError, match="frozen"):
        settings.event_bus_name = "another"  # type: ignore[misc]


def test_the_view_always_loads_and_the_example_names_each_of_its_settings(
    repository: Path, environment: pytest.MonkeyPatch
) -> None:
    for name in (*Settings.model_fields, *ViewSettings.model_fields):
        environment.delenv(name.upper(), raising=False)
    view = ViewSettings.load()
    example = (repository / ".env.example").read_text()
    for name in ViewSettings.model_fields.keys() - {"pramaan_asset_owners"}:
        assert f"# {name.upper()}={getattr(view, name)}\n" in example
    assert view.owners == []


@pytest.mark.parametrize(
    ("value", "owners"),
    [
        ("team:platform, on-call@example.com", ["team:platform", "on-call@example.com"]),
        ("a@b.example,", ["a@b.example"]),
    ],
)
def test_owners_are_taken_one_by_one(
    environment: pytest.MonkeyPatch, value: str, owners: list[str]
) -> None:
    environment.setenv("PRAMAAN_ASSET_OWNERS", value)
    assert ViewSettings.load().owners == owners


@pytest.mark.parametrize("value", ["nobody", "team:", "a@b", "me and you@example.com"])
def test_an_owner_that_dagster_would_refuse_is_named_before(
    environment: pytest.MonkeyPatch, value: str
) -> None:
    environment.setenv("PRAMAAN_ASSET_OWNERS", value)
    with pytest.raises(SettingsError, match=r"PRAMAAN_ASSET_OWNERS is unusable: .*team:name"):
        ViewSettings.load()
