"""The roles and the database that a fresh server gets.

Promises: running it again changes nothing that matters; the service's role owns nothing and is
bound by row level security; the owner may create roles and databases, but is no superuser.
Never: sends a password to the server; it sends what the server would store of it.
"""

from collections.abc import Mapping

from psycopg import Connection, sql

DATABASE = "pramaan"
OWNER = "pramaan_owner"
APP = "pramaan_app"
MAINTENANCE = "pramaan_maintenance"

BOUND = "LOGIN NOSUPERUSER NOBYPASSRLS NOREPLICATION"
ROLES = {
    # CREATEDB lets tests make a database from a template without a superuser.
    OWNER: f"{BOUND} CREATEROLE CREATEDB",
    APP: f"{BOUND} NOCREATEROLE NOCREATEDB",
    MAINTENANCE: f"{BOUND} NOCREATEROLE NOCREATEDB",
}


def ensure_roles(connection: Connection[tuple[object, ...]], passwords: Mapping[str, str]) -> None:
    """Bring roles and database to what this module says; `connection` is a superuser's."""
    for role, attributes in ROLES.items():
        name = sql.Identifier(role)
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
            connection.execute(sql.SQL("CREATE ROLE {}").format(name))
        verifier = connection.pgconn.encrypt_password(
            passwords[role].encode(), role.encode(), b"scram-sha-256"
        ).decode()
        connection.execute(
            sql.SQL("ALTER ROLE {} {} PASSWORD {}").format(
                name, sql.SQL(attributes), sql.Literal(verifier)
            )
        )
    known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE])
    if not known.fetchone():
        connection.execute(
            sql.SQL("CREATE DATABASE {} OWNER {}").format(
                sql.Identifier(DATABASE), sql.Identifier(OWNER)
            )
        )
