"""The grants of the migrations: the road is gone with them, and with any one less it is not."""

import pytest
from pydantic import SecretStr
from sqlalchemy.exc import DBAPIError

from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import APP, MAINTENANCE
from pramaan_pipelines.store.database import make_engine, transaction
from pramaan_pipelines.store.ledger import VERSION_TABLE
from pramaan_pipelines.store.privileges import REQUIRED, lacking, too_much
from pramaan_pipelines.store.roles import APP_ROLE, MAINTENANCE_ROLE
from pramaan_pipelines.store.scope_ddl import FIRM, STAFF
from pramaan_pipelines.telemetry.provider import Telemetry
from pramaan_pipelines_tests.privileges.sql import SqlGrant, granted, road
from pramaan_pipelines_tests.support.records import TelemetryRecord
from pramaan_pipelines_tests.support.world import World

APPLICATION = {
    ("public.firms", "UPDATE", "name"),
    ("public.firm_inference_egress_consents", "UPDATE", "granted"),
    ("public.firm_inference_egress_consents", "UPDATE", "updated_at"),
    ("public.matters", "UPDATE", "title"),
    ("public.matter_assignments", "INSERT", None),
    ("public.matter_assignments", "UPDATE", "user_id"),
    ("public.documents", "UPDATE", "matter_id"),
}
"""What only the application itself does on its tables, with the role that it shares with the
pipeline. The migrations grant it where they make these tables in the application's place."""

SAMPLE_DATA = (
    ("public.firms", "SELECT", ("id",)),
    ("public.firms", "INSERT", ("id", "name")),
    ("public.firm_inference_egress_consents", "INSERT", ("firm_id", "granted")),
    ("public.documents", "INSERT", ("id", "firm_id", "matter_id", "registration_status")),
)
"""What the road does in the application's place."""
IN_A_POLICY = (("public.matter_assignments", "SELECT", ("matter_id", "user_id")),)
"""What the policy of matters looks at, with the rights of who asks."""

DENIED = "permission denied"


@pytest.fixture
def maintenance_url(server: EmbeddedPostgres, database_name: str) -> SecretStr:
    return SecretStr(server.url(MAINTENANCE, database_name))


def test_the_road_is_gone_with_the_grants_and_with_any_one_less_it_is_not(
    world: World, app_url: SecretStr, maintenance_url: SecretStr, record: TelemetryRecord
) -> None:
    grants = granted(world)
    assert len(grants) > 50
    assert {grant.role for grant in grants} == {APP_ROLE, MAINTENANCE_ROLE}
    urls = (app_url, maintenance_url)
    road(world, *urls, record.telemetry)
    unneeded = [grant for grant in grants if _goes_without(grant, world, urls, record.telemetry)]
    assert {(grant.on, grant.privilege, grant.column) for grant in unneeded} == APPLICATION
    assert granted(world) == grants


def test_on_the_application_s_tables_single_columns_are_enough(
    world: World, app_url: SecretStr, maintenance_url: SecretStr, record: TelemetryRecord
) -> None:
    """As in a real installation, whose own migrations say what the role may do there."""
    for grant in granted(world):
        if _is_of_the_application(grant.on):
            world.god.execute(grant.revoke)
    needed = [
        SqlGrant(APP_ROLE, on, privilege, column)
        for on, privilege, columns in (
            *((each.on, each.privilege, each.columns) for each in REQUIRED),
            *SAMPLE_DATA,
            *IN_A_POLICY,
        )
        for column in columns
        if _is_of_the_application(on)
    ]
    for grant in needed:
        world.god.execute(grant.give)
    urls = (app_url, maintenance_url)
    road(world, *urls, record.telemetry)
    unneeded = [grant for grant in needed if _goes_without(grant, world, urls, record.telemetry)]
    assert [str(grant) for grant in unneeded] == []


def _goes_without(
    grant: SqlGrant, world: World, urls: tuple[SecretStr, SecretStr], telemetry: Telemetry
) -> bool:
    world.god.execute(grant.revoke)
    try:
        road(world, *urls, telemetry)
    except (DBAPIError, AssertionError) as error:
        told = str(error)
    else:
        return True
    finally:
        world.god.execute(grant.give)
    assert DENIED in told, grant
    return False


def test_nothing_is_granted_to_everybody_but_the_look_at_one_s_own_scope(world: World) -> None:
    found = world.rows(
        "SELECT c.oid::regclass::text, a.privilege_type "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace, aclexplode(c.relacl) a "
        "WHERE n.nspname IN ('public', 'ops', 'agents') AND a.grantee = 0"
    )
    assert found == []
    # These two read what every session may read: the settings of its own transaction.
    functions = world.rows(
        "SELECT p.oid::regprocedure::text, prosecdef FROM pg_proc p JOIN pg_namespace n "
        "ON n.oid = p.pronamespace WHERE n.nspname IN ('public', 'ops', 'agents')"
    )
    assert {(name, definer) for name, definer in functions} == {(FIRM, False), (STAFF, False)}


def test_what_doctor_asks_for_is_what_the_migrations_grant_on_the_pipeline_s_tables(
    world: World,
) -> None:
    required = {
        SqlGrant(grant.role, grant.on, grant.privilege, column)
        for grant in REQUIRED
        for column in grant.columns or (None,)
    }
    ours = {grant for grant in granted(world) if not _is_of_the_application(grant.on)}
    assert ours == {grant for grant in required if not _is_of_the_application(grant.on)}


def _is_of_the_application(on: str) -> bool:
    return on.startswith("public.") and VERSION_TABLE not in on


def test_every_grant_that_is_lacking_is_named(
    world: World, server: EmbeddedPostgres, database_name: str
) -> None:
    for grant in granted(world):
        world.god.execute(grant.revoke)
    for role, name in ((APP_ROLE, APP), (MAINTENANCE_ROLE, MAINTENANCE)):
        engine = make_engine(SecretStr(server.url(name, database_name)))
        with transaction(engine) as connection:
            told = lacking(connection, role)
        engine.dispose()
        wanted = {
            f"{grant.privilege}{f' ({column})' if column else ''} ON {grant.on}"
            for grant in REQUIRED
            if grant.role == role
            for column in grant.columns or (None,)
        }
        assert set(told) == wanted
        assert len(told) == len(wanted)


def test_nothing_is_lacking_and_nothing_too_much_after_the_migrations(world: World) -> None:
    with world.database.staff() as connection:
        assert lacking(connection, APP_ROLE) == []
        assert too_much(connection) == []
    world.god.execute("GRANT DELETE, TRUNCATE ON agents.agent_run TO pramaan_app")
    with world.database.staff() as connection:
        assert too_much(connection) == [
            "DELETE ON agents.agent_run",
            "TRUNCATE ON agents.agent_run",
        ]
