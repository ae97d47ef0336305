"""`pramaan doctor`: red for each fault with what to do about it, green where all is well."""

import json
from collections.abc import Callable

import pytest
from pydantic import SecretStr

from pramaan_pipelines.cli import main
from pramaan_pipelines.doctor import PROVISIONED, Check, examine
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import OWNER
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.settings import REQUIRED, Settings
from pramaan_pipelines.store.ledger import VERSION_TABLE
from pramaan_pipelines_tests.support.aws import free_port
from pramaan_pipelines_tests.support.world import World

CHECKS = [
    "settings",
    "database",
    "migrations",
    "row level security",
    "role",
    "grants",
    "clock",
    "credentials",
    "queues and bus",
    "Dagster storage",
    "telemetry",
]
IN_POSTGRES = CHECKS[2:7]
ALL_WELL = "as it should be"


def by_name() -> dict[str, Check]:
    return {check.name: check for check in examine()}


def only_red() -> Check:
    """Return the one check that is red."""
    (red,) = [check for check in examine() if not check.passed]
    return red


@pytest.mark.usefixtures("configured", "world")
def test_a_good_stack_is_green_and_the_exit_code_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert [line[5:26].strip() for line in out.splitlines()] == CHECKS
    assert all(line.startswith("ok ") for line in out.splitlines())


@pytest.mark.usefixtures("configured", "world")
def test_for_machines_it_is_json_with_the_same_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [check["name"] for check in told] == CHECKS
    assert all(check["passed"] for check in told)
    monkeypatch.setenv("EVENT_BUS_NAME", "no-such-bus")
    assert main(["doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [check["name"] for check in told if not check["passed"]] == ["queues and bus"]
    assert set(told[0]) == {"name", "passed", "told"}


@pytest.mark.parametrize("name", REQUIRED)
def test_a_setting_that_is_missing_is_named_with_what_to_do(
    configured: Settings, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del configured
    monkeypatch.delenv(name)
    first, *others = examine()
    assert (first.name, first.passed) == ("settings", False)
    if name in PROVISIONED:
        # Between migrating and provisioning, the database is looked at all the same.
        assert first.told == f"not set: {name}: `pramaan provision` writes them"
        assert [check.name for check in others] == [
            name for name in CHECKS[1:] if name != "queues and bus"
        ]
        assert all(check.passed for check in others)
    else:
        assert first.told.startswith(f"not set: {name}. Run `pramaan up`")
        assert others == []


@pytest.mark.usefixtures("configured")
def test_a_setting_that_is_unusable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MATTER_FRAME_JOB_LEASE_SECONDS", "soon")
    (check,) = examine()
    assert "MATTER_FRAME_JOB_LEASE_SECONDS is unusable" in check.told


@pytest.mark.usefixtures("configured")
def test_a_database_that_is_down_leaves_no_check_out_and_shows_no_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    url = f"postgresql://pramaan_app:hunter2@127.0.0.1:{port}/none"
    monkeypatch.setenv("DATABASE_URL", url)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    lines = {line[5:26].strip(): line for line in out.splitlines()}
    assert list(lines) == CHECKS
    assert f"Postgres at 127.0.0.1:{port} gives no connection" in lines["database"]
    assert "pramaan up" in lines["database"]
    for name in IN_POSTGRES:
        assert lines[name].startswith("RED")
        assert "not checked: the database gives no connection" in lines[name]
    assert lines["queues and bus"].startswith("ok ")
    assert "hunter2" not in out


@pytest.mark.usefixtures("configured")
def test_a_wrong_password_is_told_and_not_shown(
    app_url: SecretStr, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = app_url.get_secret_value().rsplit("@", 1)[1]
    monkeypatch.setenv("DATABASE_URL", f"postgresql://pramaan_app:hunter2@{where}")
    told = by_name()["database"].told
    assert "password authentication failed" in told
    assert "hunter2" not in str(examine())


@pytest.mark.parametrize(
    "url", ["mysql://u:hunter2@h/d", "postgresql://u:hunter2@x@h/d", "hunter2"]
)
@pytest.mark.usefixtures("configured")
def test_a_url_that_cannot_be_read_is_told_and_not_shown(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    checks = by_name()
    assert not checks["database"].passed
    assert "postgresql://" in checks["database"].told
    assert "hunter2" not in str(checks)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE {version} SET version_num = '0003'", "the database is at 0003"),
        ("DELETE FROM {version}", "the database is at no revision"),
    ],
)
@pytest.mark.usefixtures("configured")
def test_a_database_that_is_behind_is_told_to_migrate(world: World, change: str, told: str) -> None:
    world.god.execute(change.format(version=VERSION_TABLE))
    red = only_red()
    assert red.name == "migrations"
    assert told in red.told
    assert red.told.endswith("`pramaan migrate`")


@pytest.mark.usefixtures("configured")
def test_a_database_that_was_never_migrated_is_told_to_migrate(
    server: EmbeddedPostgres, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", server.url("pramaan_app", empty_database))
    checks = by_name()
    assert not checks["migrations"].passed
    assert "at no revision" in checks["migrations"].told
    assert checks["database"].passed


@pytest.mark.parametrize(
    "table",
    [
        "ops.document_ingest_outbox",
        "ops.domain_event_outbox",
        "ops.matter_frame_jobs",
        "agents.agent_run",
    ],
)
@pytest.mark.parametrize("how", ["NO FORCE", "DISABLE"])
@pytest.mark.usefixtures("configured")
def test_a_table_that_is_not_sealed_is_named(world: World, table: str, how: str) -> None:
    world.god.execute(f"ALTER TABLE {table} {how} ROW LEVEL SECURITY")
    red = only_red()
    assert (red.name, red.told.split()[0]) == ("row level security", table)
    assert "pramaan migrate" in red.told


@pytest.mark.usefixtures("configured", "world")
def test_a_role_that_is_bound_by_nothing_is_red(
    server: EmbeddedPostgres, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", server.admin_url(database_name))
    red = by_name()["role"]
    assert not red.passed
    assert "superuser" in red.told
    assert "use pramaan_app" in red.told


@pytest.mark.usefixtures("configured", "world")
def test_the_owner_is_not_the_service_s_role(
    server: EmbeddedPostgres, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", server.url(OWNER, database_name))
    role, grants = (by_name()[name] for name in ("role", "grants"))
    assert not role.passed
    assert role.told == "DATABASE_URL's role owns tables: use pramaan_app, which owns nothing"
    assert "the role may DELETE ON agents.agent_run: REVOKE it" in grants.told


def _delete_queue(settings: Settings) -> str:
    url = settings.require("document_ingestion_queue_url")
    client("sqs", settings).delete_queue(QueueUrl=url)
    return "pramaan-documents-ingestion-test"


def _other_bound(settings: Settings) -> str:
    sqs, url = client("sqs", settings), settings.require("framer_events_queue_url")
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])
    policy = {**json.loads(found["Attributes"]["RedrivePolicy"]), "maxReceiveCount": "9"}
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)})
    return "queue pramaan-framer-events-test does not redrive after 3 receives"


def _disable_rule(settings: Settings) -> str:
    client("events", settings).disable_rule(
        Name="pramaan-matter-created-test", EventBusName=settings.require("event_bus_name")
    )
    return "rule pramaan-matter-created-test is DISABLED"


def _no_target(settings: Settings) -> str:
    events, bus = client("events", settings), settings.require("event_bus_name")
    rule = "pramaan-matter-created-test"
    found = events.list_targets_by_rule(Rule=rule, EventBusName=bus)["Targets"]
    events.remove_targets(Rule=rule, EventBusName=bus, Ids=[target["Id"] for target in found])
    return "rule pramaan-matter-created-test has no target"


@pytest.mark.parametrize(
    "fault",
    [_delete_queue, _other_bound, _disable_rule, _no_target],
    ids=lambda fault: str(fault.__name__),
)
@pytest.mark.usefixtures("world")
def test_what_is_wrong_with_queues_and_bus_is_named_with_what_to_do(
    configured: Settings, fault: Callable[[Settings], str]
) -> None:
    told = fault(configured)
    red = only_red()
    assert red.name == "queues and bus"
    assert told in red.told
    assert "`pramaan provision`" in red.told


@pytest.mark.usefixtures("configured", "world")
def test_an_endpoint_that_is_down_is_told_and_costs_no_other_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    checks = examine()
    assert [check.name for check in checks if not check.passed] == ["queues and bus"]
    assert "EXAMPLEKEY" not in str(checks)


@pytest.mark.usefixtures("configured", "world")
def test_a_check_that_breaks_is_red_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks() -> str:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr("pramaan_pipelines.store.migrate.head", breaks)
    red = only_red()
    assert red.name == "migrations"
    assert red.told.startswith("could not be checked: RuntimeError")
    assert "hunter2" not in red.told


@pytest.mark.usefixtures("configured")
def test_it_changes_nothing(world: World) -> None:
    before = world.rows("SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables")
    examine()
    assert by_name()["database"].told == ALL_WELL
    after = world.rows("SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables")
    assert before == after


@pytest.mark.usefixtures("configured")
def test_a_table_that_is_gone_is_named_whatever_the_revision_says(world: World) -> None:
    world.god.execute("DROP TABLE ops.matter_frame_jobs")
    (check,) = [check for check in examine() if not check.passed]
    assert check.name == "migrations"
    assert check.told.startswith("ops.matter_frame_jobs is not there")


@pytest.mark.usefixtures("configured")
def test_a_database_newer_than_the_code_is_not_sent_to_migrate(world: World) -> None:
    world.god.execute("UPDATE pramaan_pipelines_version SET version_num = '9999'")
    (check,) = [check for check in examine() if not check.passed]
    assert "newer than this code" in check.told
    assert "pramaan migrate" not in check.told


def test_a_maintenance_url_of_another_role_is_found(
    configured: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINTENANCE_DATABASE_URL", configured.database_url.get_secret_value())
    (check,) = [check for check in examine() if not check.passed]
    assert (check.name, "pruning needs pramaan_maintenance" in check.told) == (
        "maintenance role",
        True,
    )
