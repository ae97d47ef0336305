"""The firm of the transaction, as every policy asks for it; used by the migrations.

Promises: the service without a scope meets an error, and never an empty table that looks like
nothing to do; so does a firm_id that is none.
Never: shows the setting's value, or gets in the way of a role that is not the service: to one of
the application's that sets no firm this policy shows no row, as its own policies may.
"""

from typing import Final

from pramaan_pipelines.store.ledger import Ledger
from pramaan_pipelines.store.roles import APP_ROLE

FIRM: Final = "ops.pramaan_firm(boolean)"
STAFF: Final = "ops.pramaan_is_staff()"

# A policy asks once a statement, as (SELECT ops.pramaan_firm(...)), and only where there is a row
# to ask about. The search_path is set because a session may put types of its own before ours.
MAKE_FIRM: Final = f"""
    CREATE FUNCTION ops.pramaan_firm(or_staff boolean) RETURNS uuid
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$
    DECLARE
        firm text := nullif(current_setting('app.firm_id', true), '');
        staff boolean := coalesce(current_setting('app.is_staff', true), '') = 'true';
    BEGIN
        IF firm IS NULL THEN
            IF (staff AND or_staff) OR NOT (
                pg_has_role(session_user, '{APP_ROLE}', 'USAGE')
                OR pg_has_role(current_user, '{APP_ROLE}', 'USAGE')
            ) THEN
                RETURN NULL;
            END IF;
            RAISE EXCEPTION 'no firm is set: rows may be there that this transaction cannot see'
                USING ERRCODE = 'insufficient_privilege',
                HINT = 'Set app.firm_id on the transaction, as store.database.enter_firm does.';
        END IF;
        IF firm !~ '^[0-9a-fA-F]{{8}}(-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}$' THEN
            RAISE EXCEPTION 'app.firm_id is no UUID' USING ERRCODE = 'insufficient_privilege';
        END IF;
        RETURN firm;
    END $$"""


# A policy that asks only this would show no row to a session without any scope.
MAKE_STAFF: Final = """
    CREATE FUNCTION ops.pramaan_is_staff() RETURNS boolean
    LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS $$
    BEGIN
        PERFORM ops.pramaan_firm(true);
        RETURN coalesce(current_setting('app.is_staff', true), '') = 'true';
    END $$"""


def make_scope(ledger: Ledger) -> None:
    """Make the functions; everybody may call them, as everybody may read the settings."""
    for name, statement in ((FIRM, MAKE_FIRM), (STAFF, MAKE_STAFF)):
        ledger.run(statement, f"DROP FUNCTION {name}")
        ledger.run(f"GRANT EXECUTE ON FUNCTION {name} TO PUBLIC", None)
