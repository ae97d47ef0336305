"""`pramaan doctor`, the rest: policies, grants, clock, credentials, visibility, Dagster's storage.

Each check is seen red, by a fault in what it looks at.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from dagster import DagsterInstance

from pramaan_pipelines.cli import main
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import APP, MAINTENANCE, OWNER
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.operations.test_doctor import ALL_WELL, by_name, only_red
from pramaan_pipelines_tests.support.aws import free_port
from pramaan_pipelines_tests.support.world import World

SECRET = "hunter2-Geheim"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            "DROP POLICY matter_frame_jobs_firm_isolation ON ops.matter_frame_jobs",
            "policy matter_frame_jobs_firm_isolation on ops.matter_frame_jobs is gone",
        ),
        (
            "DROP POLICY domain_event_outbox_staff_update ON ops.domain_event_outbox",
            "policy domain_event_outbox_staff_update on ops.domain_event_outbox is gone",
        ),
        (
            "DROP POLICY agent_run_firm_isolation ON agents.agent_run",
            "agents.agent_run has no policy",
        ),
        (
            "CREATE POLICY for_now ON ops.matter_frame_jobs USING (true)",
            "policy for_now on ops.matter_frame_jobs lets everybody past: DROP POLICY",
        ),
        (
            "CREATE POLICY for_now ON agents.agent_run FOR INSERT WITH CHECK (true)",
            "policy for_now on agents.agent_run lets everybody past: DROP POLICY",
        ),
    ],
)
@pytest.mark.usefixtures("configured")
def test_policies_that_are_gone_or_open_are_named(world: World, change: str, told: str) -> None:
    world.god.execute(change)
    red = only_red()
    assert red.name == "row level security"
    assert told in red.told


@pytest.mark.parametrize(
    "change",
    [
        "DROP INDEX ops.matter_frame_jobs_owed_idx",
        "UPDATE pg_index SET indisvalid = false "
        "WHERE indexrelid = 'ops.matter_frame_jobs_owed_idx'::regclass",
    ],
)
@pytest.mark.usefixtures("configured")
def test_an_index_that_is_gone_or_half_built_is_named(world: World, change: str) -> None:
    world.god.execute(change)
    red = only_red()
    assert red.name == "migrations"
    assert "index ops.matter_frame_jobs_owed_idx is not there, or its build" in red.told


@pytest.mark.usefixtures("configured")
def test_a_role_that_bypasses_row_level_security_is_red(
    world: World, server: EmbeddedPostgres, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.url(APP, database_name).replace(APP, "bypassing", 1)
    password = url.split(":")[2].split("@")[0]
    world.god.execute(f"CREATE ROLE bypassing LOGIN BYPASSRLS IN ROLE {APP} PASSWORD '{password}'")
    try:
        monkeypatch.setenv("DATABASE_URL", url)
        red = only_red()
        assert red.name == "role"
        assert "bypasses row level security: ALTER ROLE it NOBYPASSRLS" in red.told
    finally:
        world.god.execute("DROP ROLE bypassing")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            f"REVOKE UPDATE (parked_at) ON ops.domain_event_outbox FROM {APP}",
            "the role lacks UPDATE (parked_at) ON ops.domain_event_outbox: GRANT it",
        ),
        (
            f"REVOKE SELECT ON public.matters FROM {APP}",  # noqa: S608 - names of ours
            "the role lacks SELECT (firm_id) ON public.matters, SELECT (id) ON public.matters",
        ),
        (
            f"GRANT DELETE ON ops.matter_frame_jobs TO {APP}",
            "the role may DELETE ON ops.matter_frame_jobs: REVOKE it",
        ),
        (
            "GRANT TRUNCATE ON agents.agent_run TO PUBLIC",
            "the role may TRUNCATE ON agents.agent_run: REVOKE it",
        ),
    ],
)
@pytest.mark.usefixtures("configured")
def test_grants_that_are_lacking_or_too_much_are_named(
    world: World, change: str, told: str
) -> None:
    world.god.execute(change)
    red = only_red()
    assert red.name == "grants"
    assert told in red.told


@pytest.mark.usefixtures("configured")
def test_the_maintenance_role_s_grants_are_looked_at_too(
    world: World, server: EmbeddedPostgres, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINTENANCE_DATABASE_URL", server.url(MAINTENANCE, database_name))
    assert by_name()["maintenance role"].told == ALL_WELL
    world.god.execute(f"REVOKE DELETE ON ops.domain_event_outbox FROM {MAINTENANCE}")
    red = only_red()
    assert red.name == "maintenance role"
    assert "lacks DELETE ON ops.domain_event_outbox" in red.told


@pytest.mark.parametrize("hours", [1, -1])
@pytest.mark.usefixtures("configured")
def test_clocks_that_are_apart_are_told(world: World, database_name: str, hours: int) -> None:
    """A clock of the database's own, which this role's path finds before the server's."""
    world.god.execute(
        "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
        f"'SELECT pg_catalog.clock_timestamp() + make_interval(hours => {hours})'"
    )
    world.god.execute(
        f"ALTER ROLE {APP} IN DATABASE {database_name} SET search_path = public, pg_catalog"
    )
    red = only_red()
    assert red.name == "clock"
    assert "are 3600 s apart" in red.told
    assert "time service" in red.told


@pytest.mark.usefixtures("configured")
def test_no_credentials_at_all_is_told_before_the_queues_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    checks = by_name()
    assert not checks["credentials"].passed
    assert "botocore finds none" in checks["credentials"].told
    assert "AWS_PROFILE" in checks["credentials"].told
    assert not checks["queues and bus"].passed


@pytest.mark.usefixtures("configured")
def test_a_profile_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    check = by_name()["credentials"]
    assert not check.passed
    assert "no-such-profile" in check.told


@pytest.mark.usefixtures("world")
def test_a_message_must_stay_hidden_for_longer_than_a_lease_but_on_the_stand_in(
    configured: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = "queues and bus"
    assert by_name()[queues].told == ALL_WELL
    # The same server by an address that is not known for this machine's.
    port = str(configured.aws_endpoint_url).rsplit(":", 1)[1]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://[::ffff:127.0.0.1]:{port}")
    red = only_red()
    assert red.name == queues
    told = "queue pramaan-framer-events-test hides a message for 30 s, no longer than a lease of "
    assert red.told.startswith(f"{told}900 s: `pramaan provision`")
    client("sqs", configured).set_queue_attributes(
        QueueUrl=configured.require("framer_events_queue_url"),
        Attributes={"VisibilityTimeout": "901"},
    )
    assert by_name()[queues].told == ALL_WELL


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A DAGSTER_HOME with nothing in it."""
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(made))
    return made


def storage_in(home: Path, url: str) -> None:
    (home / "dagster.yaml").write_text(f"storage:\n  postgres:\n    postgres_url: {url}\n")


@pytest.mark.usefixtures("configured", "world")
def test_without_a_home_it_is_said_and_is_no_fault() -> None:
    check = by_name()["Dagster storage"]
    assert check.passed
    assert "DAGSTER_HOME is not set" in check.told


@pytest.mark.usefixtures("configured", "world")
def test_a_home_with_nothing_in_it_yet_is_no_fault_and_stays_as_it_is(home: Path) -> None:
    assert by_name()["Dagster storage"].told == ALL_WELL
    assert list(home.iterdir()) == []


@pytest.mark.usefixtures("configured", "world")
def test_a_home_that_is_no_folder_is_red(home: Path) -> None:
    home.rmdir()
    red = only_red()
    assert red.name == "Dagster storage"
    assert "make it, with a dagster.yaml in it" in red.told


@pytest.mark.parametrize(
    "text",
    [
        f"storage:\n  postgres:\n    postgres_url: {{secret: {SECRET}}}\n",
        f"storage: {SECRET}\n",
        f"storage: [{SECRET}\n",
        f"storage:\n  module: {SECRET}\n  class: None\n",
    ],
    ids=["an entry that is none", "another kind", "no YAML", "a module that is none"],
)
@pytest.mark.usefixtures("configured", "world")
def test_a_file_that_cannot_be_used_is_told_and_not_shown(home: Path, text: str) -> None:
    (home / "dagster.yaml").write_text(text)
    red = only_red()
    assert red.name == "Dagster storage"
    assert "`dagster instance info` says where" in red.told
    assert SECRET not in red.told


@pytest.mark.usefixtures("configured", "world")
def test_a_storage_of_an_older_dagster_is_told_to_migrate(home: Path) -> None:
    with DagsterInstance.from_config(str(home)) as made:
        made.get_runs_count()
    assert by_name()["Dagster storage"].told == ALL_WELL
    with sqlite3.connect(home / "history" / "runs.db") as runs:
        runs.execute("UPDATE alembic_version SET version_num = '567bc23fd1ac'")
    runs.close()
    red = only_red()
    assert red.name == "Dagster storage"
    assert "the storage of runs is at 567bc23fd1ac" in red.told
    assert "`dagster instance migrate`" in red.told


@pytest.mark.usefixtures("configured", "world")
def test_a_storage_in_postgres_that_is_not_made_yet_is_told_and_not_made(
    home: Path, server: EmbeddedPostgres, empty_database: str
) -> None:
    url = server.url(OWNER, empty_database)
    storage_in(home, url)
    red = only_red()
    assert red.name == "Dagster storage"
    assert "the storage of runs is not made yet" in red.told
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT 1 FROM pg_tables WHERE schemaname = 'public'")
        assert tables.fetchall() == []
    with DagsterInstance.from_config(str(home)) as made:
        made.get_runs_count()
    assert by_name()["Dagster storage"].told == ALL_WELL


@pytest.mark.parametrize(
    "wrong",
    [
        lambda _: f"postgresql://u:{SECRET}@127.0.0.1:{free_port()}/none",
        lambda url: url.replace(url.split(":")[2].split("@")[0], SECRET),
        lambda _: f"postgresql://u:{SECRET}@x@127.0.0.1/d",
    ],
    ids=["nobody there", "a wrong password", "no URL"],
)
@pytest.mark.usefixtures("configured", "world")
def test_a_storage_that_cannot_be_reached_is_told_and_no_password_with_it(
    home: Path,
    server: EmbeddedPostgres,
    empty_database: str,
    wrong: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    storage_in(home, wrong(server.url(OWNER, empty_database)))
    red = only_red()
    assert red.name == "Dagster storage"
    assert SECRET not in str(red)
    assert main(["--debug", "doctor", "--json"]) == 1
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
