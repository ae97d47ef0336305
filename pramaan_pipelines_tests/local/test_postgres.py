"""The embedded Postgres: one server, whatever was killed, taken or left behind."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import psycopg
import pytest

from pramaan_pipelines.local import binaries, server
from pramaan_pipelines.local.errors import LocalStackError
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.processes import choose_port, holder, is_held
from pramaan_pipelines.local.server_user import server_user

Run = Callable[[str], "subprocess.Popen[str]"]
OLD = Path("/usr/lib/postgresql/15/bin")
START = "from pathlib import Path; from pramaan_pipelines.local.postgres import EmbeddedPostgres; "


def ask(url: str, query: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def write(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def owner(postgres: EmbeddedPostgres) -> str:
    return postgres.url("pramaan_owner")


def main_pid(postgres: EmbeddedPostgres) -> int:
    pid = postgres._pid_hint()
    assert pid is not None
    assert holder(postgres.lock, pid) is not None
    return pid


def test_cold_start_then_again(root: Path) -> None:
    postgres = EmbeddedPostgres(root)  # as users get it: durable
    try:
        assert not postgres.is_running()
        assert postgres.start()
        assert not postgres.start()
        assert postgres.is_running()
        assert ask(postgres.url(), "SELECT current_user || '@' || current_database()") == (
            "pramaan_app@pramaan"
        )
        for setting, value in {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "on",
            "max_connections": "200",
            "TimeZone": "UTC",
            "password_encryption": "scram-sha-256",
            "server_encoding": "UTF8",
        }.items():
            assert ask(postgres.admin_url(), f"SHOW {setting}") == value
        locale = (
            "SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname = 'pramaan'"
        )
        assert ask(postgres.url(), locale) == "bC.UTF-8"
        lines = "SELECT string_agg(DISTINCT auth_method, ',') FROM pg_hba_file_rules"
        assert ask(postgres.admin_url(), lines) == "scram-sha-256"
    finally:
        postgres.wipe()
    assert not root.exists()
    assert not postgres.is_running()


def test_roles(shared: EmbeddedPostgres) -> None:
    shared.start()
    with psycopg.connect(owner(shared)) as connection:
        found = connection.execute(
            "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb FROM pg_roles"
            " WHERE rolname LIKE 'pramaan%' ORDER BY 1"
        ).fetchall()
    assert found == [
        ("pramaan_app", False, False, False, False),
        ("pramaan_maintenance", False, False, False, False),
        ("pramaan_owner", False, False, True, True),
    ]
    write(owner(shared), "CREATE TABLE t (x int)", "CREATE DATABASE d TEMPLATE pramaan")
    assert ask(shared.url("pramaan_owner", "d"), "SELECT count(*) FROM t") == 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        write(shared.url(), "CREATE TABLE u (x int)")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        ask(shared.url().replace("pramaan_app:", "pramaan_app:x"), "SELECT 1")
    assert {file.stat().st_mode & 0o777 for file in shared.root.glob("*.password")} == {0o600}
    with pytest.raises(LocalStackError, match="no role stranger"):
        shared.url("stranger")


def test_two_starts_at_once(postgres: EmbeddedPostgres, python: Run) -> None:
    code = f"{START} p = EmbeddedPostgres(Path({str(postgres.root)!r})); print(p.start(), p.url())"
    answers = [run.communicate(timeout=60)[0].split() for run in (python(code), python(code))]
    assert sorted(answer[0] for answer in answers) == ["False", "True"]
    assert {answer[1] for answer in answers} == {postgres.url()}
    assert ask(postgres.url(), "SELECT 1") == 1


def test_outlives_its_starter_and_ends_from_elsewhere(
    shared: EmbeddedPostgres, python: Run
) -> None:
    code = f"{START} import time; EmbeddedPostgres(Path({str(shared.root)!r})).start();"
    starter = python(code + "print('up', flush=True); time.sleep(60)")
    assert starter.stdout
    assert starter.stdout.readline() == "up\n"
    os.killpg(starter.pid, signal.SIGINT)  # what Ctrl-C in the terminal does
    assert starter.wait(10) != 0
    assert ask(shared.url(), "SELECT 1") == 1
    pid = main_pid(shared)
    shared.stop()
    assert not is_held(shared.lock)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    shared.stop()


def test_kill_9_recovers_with_its_data(shared: EmbeddedPostgres) -> None:
    shared.start()
    url = owner(shared)
    write(url, "CREATE TABLE kept (x int)", "INSERT INTO kept VALUES (7)")
    os.kill(main_pid(shared), signal.SIGKILL)
    assert shared.start()
    assert owner(shared) == url
    assert ask(url, "SELECT x FROM kept") == 7


def test_kill_9_with_a_child_that_does_not_notice(
    shared: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "ORPHAN_SECONDS", 0.5)
    shared.start()
    with psycopg.connect(shared.admin_url()) as busy:
        child = busy.info.backend_pid
        os.kill(child, signal.SIGSTOP)
        os.kill(main_pid(shared), signal.SIGKILL)
        time.sleep(0.2)
        assert not shared.is_running()
        assert is_held(shared.lock)
        monkeypatch.setattr(
            EmbeddedPostgres, "ending", ((signal.SIGINT, 0.2), (signal.SIGKILL, 10.0))
        )
        assert shared.start()
    assert ask(shared.url(), "SELECT 1") == 1


def test_stale_pid_file_of_a_living_stranger(shared: EmbeddedPostgres) -> None:
    shared.start()
    shared.stop()
    user = server_user(shared.root)
    with subprocess.Popen(["sleep", "60"], **user.switch) as stranger:
        try:
            port = shared.port
            lines = [stranger.pid, shared.data, int(time.time()), port, "", "127.0.0.1", "1 1"]
            pid_file = shared.data / "postmaster.pid"
            pid_file.write_text("\n".join(map(str, lines)))
            pid_file.chmod(0o600)
            os.chown(pid_file, user.uid, user.gid)
            assert shared.start()
            assert ask(shared.url(), "SELECT 1") == 1
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_half_made_data_are_thrown_away(postgres: EmbeddedPostgres, python: Run) -> None:
    code = f"{START} EmbeddedPostgres(Path({str(postgres.root)!r})).start()"
    starter = python(code)
    unfinished = None
    while unfinished is None or not (unfinished / "PG_VERSION").exists():
        assert starter.poll() is None
        time.sleep(0.002)
        unfinished = postgres.data.parent / "unfinished"
    for process in psutil.Process(starter.pid).children(recursive=True):
        # It may have ended between the look and the kill.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    starter.kill()
    starter.wait()
    assert not postgres.data.exists()
    assert postgres.start()
    assert ask(postgres.url(), "SELECT 1") == 1
    assert [path.name for path in postgres.data.parent.iterdir()] == ["data"]


def test_taken_port_moves(shared: EmbeddedPostgres) -> None:
    shared.start()
    former = shared.port
    assert former
    shared.stop()
    with socket.create_server(("127.0.0.1", former)):
        assert shared.start()
        assert shared.port != former
        assert ask(shared.url(), "SHOW port") == str(shared.port)
    assert shared.issued(shared.url().replace(str(shared.port), str(former)))
    assert not shared.issued("postgresql://pramaan_app:other@127.0.0.1/pramaan")


def test_port_taken_between_look_and_launch(
    shared: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared.start()
    shared.stop()
    (shared.root / "port").unlink()
    with socket.socket() as taken:  # bound, but deaf: it cannot be connected to
        taken.bind(("127.0.0.1", 0))
        ports = iter([taken.getsockname()[1], choose_port()])
        monkeypatch.setattr(server, "choose_port", lambda: next(ports))
        assert shared.start()
        assert shared.port != taken.getsockname()[1]


def test_lost_port_file_of_a_running_server(shared: EmbeddedPostgres) -> None:
    shared.start()
    (shared.root / "port").unlink()
    assert shared.start()
    assert ask(shared.url(), "SELECT 1") == 1


def test_other_version_is_refused(shared: EmbeddedPostgres) -> None:
    shared.start()
    shared.stop()
    version = shared.data / "PG_VERSION"
    true = version.read_text()
    version.write_text("12\n")
    try:
        with pytest.raises(LocalStackError, match=r"of PostgreSQL 12, .* of \d+"):
            shared.start()
    finally:
        version.write_text(true)


@pytest.mark.skipif(not OLD.is_dir(), reason="no PostgreSQL 15 on this machine")
def test_named_programs_of_the_oldest_version(postgres: EmbeddedPostgres) -> None:
    old = EmbeddedPostgres(postgres.root, OLD, durable=False)
    assert old.start()
    assert str(ask(old.url(), "SHOW server_version")).startswith("15.")
    assert not postgres.start()  # a running server needs no programs
    postgres.stop()
    with pytest.raises(LocalStackError, match=r"of PostgreSQL 15, .* of 18"):
        postgres.start()


def test_programs_that_are_not_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LocalStackError, match="PRAMAAN_PG_BIN names"):
        EmbeddedPostgres(root, root / "nowhere").start()
    for place in ("_from_wheel", "_from_path", "_from_packages"):
        monkeypatch.setattr(binaries, place, lambda: iter(()))
    with pytest.raises(LocalStackError, match=r"No PostgreSQL server was found.*DATABASE_URL"):
        EmbeddedPostgres(root).start()
    EmbeddedPostgres(root).wipe()


def test_lost_passwords_are_told(shared: EmbeddedPostgres) -> None:
    shared.start()
    shared.stop()
    password = shared.root / "postgres.password"
    password.rename(password.with_name("elsewhere"))
    try:
        with pytest.raises(LocalStackError, match="down --wipe"):
            shared.start()
    finally:
        password.with_name("elsewhere").rename(password)
