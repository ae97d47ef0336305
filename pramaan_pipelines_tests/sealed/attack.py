"""How an attack is made and what is read off it: sessions, targets, commands.

Every statement runs as `pramaan_app` in a transaction that is rolled back. What a cell says is the
firms whose rows the statement reached, or why it reached none.
"""
# ruff: noqa: S608 - statements made of constants

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from psycopg import errors
from psycopg.types.json import Json

from pramaan_pipelines_tests.support.world import World

Connection = psycopg.Connection[tuple[Any, ...]]

A_ROWS: Final = 1
B_ROWS: Final = 2
"""So that a count alone tells whose rows they were; `firms` and the consents have one of each."""


@dataclass(frozen=True)
class Target:
    """One table, and how it is attacked.

    Attributes:
        firm: the column that says whose a row is.
        key: the columns of a key that another firm's row may already have.
        values: what an insert writes beside firm and key.
        change: the column that an update sets, and to what.
    """

    firm: str
    key: tuple[str, ...]
    values: dict[str, object]
    change: tuple[str, str]


_EVENT: Final = "matter.created"
TARGETS: Final = {
    "ops.document_ingest_outbox": Target(
        "firm_id",
        ("event_id",),
        {"document_id": uuid4(), "event_type": "document.ingest.requested"},
        ("last_dispatch_error", "'seen'"),
    ),
    "ops.domain_event_outbox": Target(
        "firm_id",
        ("event_id",),
        {"event_type": _EVENT, "envelope": Json({})},
        ("last_dispatch_error", "'seen'"),
    ),
    "ops.matter_frame_jobs": Target(
        "firm_id", ("firm_id", "matter_id"), {}, ("rebuild_needed", "true")
    ),
    "agents.agent_run": Target(
        "firm_id",
        ("id",),
        {"matter_id": uuid4(), "agent_key": "vega_matter_frame", "status": "running"},
        ("status", "'failed'"),
    ),
    "public.firms": Target("id", ("id",), {"name": "forged"}, ("name", "'seen'")),
    "public.matters": Target("firm_id", ("id",), {"title": "forged"}, ("title", "'seen'")),
    "public.documents": Target("firm_id", ("id",), {}, ("registration_status", "'failed'")),
    "public.firm_inference_egress_consents": Target(
        "firm_id", ("firm_id",), {"granted": True}, ("granted", "false")
    ),
    "public.matter_assignments": Target(
        "firm_id", ("firm_id", "matter_id", "user_id"), {}, ("user_id", "gen_random_uuid()")
    ),
}


@dataclass(frozen=True)
class Scene:
    """The database under attack: firm A, whose rows are the prize, and firm B.

    Attributes:
        url: of the service role.
        keys: of each table, the key of firm A's row.
    """

    url: str
    firm_a: UUID
    firm_b: UUID
    keys: dict[str, dict[str, object]]

    @classmethod
    def build(cls, world: World, url: str) -> "Scene":
        """Give firm A one row in every table, and firm B two where its key allows."""
        keys: dict[str, dict[str, object]] = {}
        for firm, rows in ((world.firm_a, A_ROWS), (world.firm_b, B_ROWS)):
            for table, target in TARGETS.items():
                if target.key == (target.firm,):
                    keys.setdefault(table, {target.firm: firm})
                    continue
                for _ in range(rows):
                    key = {name: uuid4() for name in target.key} | {target.firm: firm}
                    _insert(world.god, table, key | target.values)
                    keys.setdefault(table, {name: key[name] for name in target.key})
        return cls(url, world.firm_a, world.firm_b, keys)

    def whose(self, firms: set[UUID]) -> str:
        """Name the firms of a cell."""
        named = {self.firm_a: "A", self.firm_b: "B"}
        return "+".join(sorted(named.get(firm, "another") for firm in firms)) or "-"


SETTINGS: Final = ("app.firm_id", "app.user_id", "app.role", "app.is_staff")


@dataclass(frozen=True)
class Session:
    """What a session sets before it attacks; `A` and `B` stand for the firms' ids.

    Attributes:
        title: what it is, in the table.
        variants: the settings, each in the order of SETTINGS; None leaves one unset. All variants
            come to the same.
    """

    title: str
    variants: tuple[tuple[str | None, str | None, str | None, str | None], ...]


USER: Final = "7a1f6a52-6df0-4e0a-9f0d-3f1d9ad0a001"
SESSIONS: Final = {
    "firm B": Session(
        "a session of firm B, also one that says `is_staff` in other words",
        tuple(("B", "", "firm_admin", staff) for staff in ("false", "", None, "TRUE", "1", "t")),
    ),
    "firm B, a role": Session(
        "a session of firm B without the role `firm_admin`, also one that tries other roles",
        tuple(("B", USER, role, "false") for role in ("lawyer", "staff", "postgres", "", None)),
    ),
    "user of A": Session(
        "a user of firm A to whom nothing is assigned", (("A", USER, "lawyer", "false"),)
    ),
    "no firm": Session(
        "a session with no setting, or with empty ones, or with a role or a user alone",
        (
            (None, None, None, None),
            ("", "", "", ""),
            (None, USER, "firm_admin", "false"),
            ("", None, "firm_admin", "TRUE"),
        ),
    ),
    "no UUID": Session(
        "a session whose firm is no UUID",
        tuple((firm, "", "firm_admin", "false") for firm in ("%", "null", "0", "A B", "*", "A'")),
    ),
    "staff": Session(
        "the staff worker, and a session that calls itself staff",
        (("", "", "", "true"), (None, None, None, "true"), ("", USER, "lawyer", "true")),
    ),
    "firm B as staff": Session(
        "a session of firm B that calls itself staff too", (("B", "", "firm_admin", "true"),)
    ),
    "names A": Session(
        "a session that names firm A as its own", (("A", "", "firm_admin", "false"),)
    ),
}


@contextmanager
def session(scene: Scene, settings: tuple[str | None, ...]) -> Iterator[Connection]:
    """Open a transaction of the service role with `settings`; it is rolled back."""
    with psycopg.connect(scene.url) as connection:
        for name, value in zip(SETTINGS, settings, strict=True):
            if value is not None:
                told = value.replace("A", str(scene.firm_a)).replace("B", str(scene.firm_b))
                connection.execute("SELECT set_config(%s, %s, true)", [name, told])
        yield connection
        connection.rollback()


def attack(connection: Connection, scene: Scene, command: str, table: str) -> str:
    """Run one command against one table; return what it came to."""
    try:
        with connection.transaction(force_rollback=True):
            return COMMANDS[command](connection, scene, table)
    except errors.InsufficientPrivilege as refused:
        return _refusal(refused)
    except errors.UniqueViolation:
        return "tells"
    except errors.FeatureNotSupported:
        return "unsupported"


def _refusal(refused: errors.InsufficientPrivilege) -> str:
    told = refused.diag.message_primary or ""
    for begins, cell in (
        ("permission denied", "denied"),
        ("new row violates row-level security policy", "policy"),
        ("no firm is set", "no-firm"),
        ("app.firm_id is no UUID", "no-UUID"),
    ):
        if told.startswith(begins):
            return cell
    return told


def _insert(
    connection: Connection, table: str, row: dict[str, object], more: str = ""
) -> psycopg.Cursor[tuple[Any, ...]]:
    places = ", ".join(["%s"] * len(row))
    return connection.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places}) {more}", list(row.values())
    )


def _reading(query: str) -> Callable[[Connection, Scene, str], str]:
    def read(connection: Connection, scene: Scene, table: str) -> str:
        rows = connection.execute(query.format(table=table, firm=TARGETS[table].firm))
        return scene.whose({UUID(str(firm)) for (firm,) in rows})

    return read


def _copying(connection: Connection, scene: Scene, table: str) -> str:
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({TARGETS[table].firm}) TO STDOUT") as copy,
    ):
        return scene.whose({UUID(bytes(line).decode().strip()) for line in copy})


LEAK: Final = """
    CREATE FUNCTION pg_temp.leak(value text) RETURNS boolean LANGUAGE plpgsql COST 0.0000000001
    AS $$ BEGIN RAISE NOTICE 'leaked %', value; RETURN true; END $$
"""


def _leaking(connection: Connection, scene: Scene, table: str) -> str:
    """A function that costs nothing and tells what it is given: does it meet a row before RLS?"""
    met: set[UUID] = set()

    def hear(notice: errors.Diagnostic) -> None:
        if found := re.fullmatch(r"leaked (.{36})", notice.message_primary or ""):
            met.add(UUID(found[1]))

    connection.add_notice_handler(hear)
    try:
        connection.execute(LEAK)
        firm = TARGETS[table].firm
        connection.execute(f"SELECT 1 FROM {table} WHERE pg_temp.leak({firm}::text)")
    finally:
        connection.remove_notice_handler(hear)
    return scene.whose(met)


def _forging(more: str) -> Callable[[Connection, Scene, str], str]:
    def forge(connection: Connection, scene: Scene, table: str) -> str:
        target = TARGETS[table]
        row = {name: uuid4() for name in target.key} | {target.firm: scene.firm_a}
        if target.key == (target.firm,):
            row = {target.firm: scene.firm_a}
        found = _insert(connection, table, row | target.values, more.format(firm=target.firm))
        return "A" if found.rowcount else "-"

    return forge


def _colliding(then: str) -> Callable[[Connection, Scene, str], str]:
    """A row of one's own under a key that firm A's row has."""

    def collide(connection: Connection, scene: Scene, table: str) -> str:
        target = TARGETS[table]
        column, value = target.change
        row = scene.keys[table] | target.values
        row[target.firm] = scene.firm_a if target.key == (target.firm,) else scene.firm_b
        keys = ", ".join(target.key)
        more = f"ON CONFLICT ({keys}) DO " + then.format(column=column, value=value)
        found = _insert(connection, table, row, f"{more} RETURNING {target.firm}").fetchall()
        return scene.whose({firm for (firm,) in found}) if found else "tells"

    return collide


def _updating(connection: Connection, scene: Scene, table: str) -> str:
    """Once with RETURNING, and once blind, which asks the policies for updates only."""
    target = TARGETS[table]
    column, value = target.change
    statement = f"UPDATE {table} SET {column} = {value}"
    with connection.transaction(force_rollback=True):
        blind = connection.execute(statement).rowcount
    rows = connection.execute(f"{statement} RETURNING {target.firm}").fetchall()
    assert blind == len(rows), "a blind update reaches other rows than one that returns them"
    return scene.whose({firm for (firm,) in rows})


def _changing(statement: str) -> Callable[[Connection, Scene, str], str]:
    def change(connection: Connection, _: Scene, table: str) -> str:
        connection.execute(statement.format(table=table))
        return "done"

    return change


def _copying_in(connection: Connection, scene: Scene, table: str) -> str:
    target = TARGETS[table]
    names = list(dict.fromkeys([target.firm, *target.key, *target.values]))
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} ({', '.join(names)}) FROM STDIN") as copy,
    ):
        copy.write_row([scene.firm_a for _ in names])
    return "done"


def view_of(table: str) -> str:
    """Return the name of the owner's view of `table`."""
    return f"public.seen_{table.split('.')[1]}"


def arrange_views(owner: Connection) -> None:
    """Make, as the tables' owner, a view of each and a function with its maker's rights."""
    for table, target in TARGETS.items():
        view = view_of(table)
        owner.execute(f"CREATE VIEW {view} AS SELECT {target.firm} AS firm FROM {table}")
        owner.execute(
            f"CREATE FUNCTION {view}() RETURNS SETOF uuid LANGUAGE sql SECURITY DEFINER "
            f"AS 'SELECT {target.firm} FROM {table}'"
        )
        owner.execute(f"GRANT SELECT ON {view} TO pramaan_app")


def _viewing(query: str) -> Callable[[Connection, Scene, str], str]:
    def view(connection: Connection, scene: Scene, table: str) -> str:
        rows = connection.execute(query.format(view=view_of(table)))
        return scene.whose({firm for (firm,) in rows})

    return view


READS: Final = {
    "SELECT": _reading("SELECT {firm} FROM {table}"),
    "FOR UPDATE": _reading("SELECT {firm} FROM {table} FOR UPDATE"),
    "FOR KEY SHARE": _reading("SELECT {firm} FROM {table} FOR KEY SHARE SKIP LOCKED"),
    "COPY TO": _copying,
    "owner's view": _viewing("SELECT firm FROM {view}"),
    "definer function": _viewing("SELECT * FROM {view}()"),
    "leaky function": _leaking,
}
WRITES: Final = {
    "INSERT as A": _forging(""),
    "INSERT RETURNING as A": _forging("RETURNING {firm}"),
    "key of A, DO NOTHING": _colliding("NOTHING"),
    "key of A, DO UPDATE": _colliding("UPDATE SET {column} = {value}"),
    "COPY FROM": _copying_in,
    "UPDATE": _updating,
    "DELETE": _changing("DELETE FROM {table}"),
    "TRUNCATE": _changing("TRUNCATE {table}"),
    "LOCK TABLE": _changing("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE NOWAIT"),
}
COMMANDS: Final = READS | WRITES
