"""The embedded Postgres where root starts it: containers and CI."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from pramaan_pipelines.local.binaries import find_binaries
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.server_user import find_base, recorded_base, server_user

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter; those of pytest are closed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def modes(path: Path) -> list[tuple[Path, int, int]]:
    return [(p, p.stat().st_mode, p.stat().st_uid) for p in (path, *path.parents)]


def as_nobody(*command: str) -> bool:
    entry = pwd.getpwnam("nobody")
    done = subprocess.run(
        command, check=False, capture_output=True, user=entry.pw_uid, group=entry.pw_gid, cwd="/"
    )
    return done.returncode == 0


def server_uid(postgres: EmbeddedPostgres) -> int:
    pid = postgres._pid_hint()
    assert pid
    return psutil.Process(pid).uids().real


def no_leftover(folder: Path) -> None:
    pytest.fail(f"{folder} is nobody's leftover")


def test_stays_in_a_folder_that_the_server_can_reach(open_folder: Path) -> None:
    before = modes(open_folder)
    postgres = EmbeddedPostgres(open_folder / "postgres", durable=False)
    try:
        postgres.start()
        assert postgres.base == postgres.root
        home = postgres.data.parent.stat()
        assert home.st_mode & 0o777 == 0o700
        assert home.st_uid == server_user(postgres.root).uid == server_uid(postgres) != 0
        for name in ("pramaan_owner.password", "server.log", "running.lock"):
            assert as_nobody("test", "-e", str(postgres.root / name))
            assert not as_nobody("cat", str(postgres.root / name))
        assert modes(open_folder) == before
    finally:
        postgres.wipe()


def test_moves_out_of_a_closed_folder(tmp_path: Path, postgres: EmbeddedPostgres) -> None:
    # That of pytest, like root's home, lets nobody else in.
    assert not as_nobody("test", "-e", str(tmp_path))
    before = modes(tmp_path)
    postgres.start()
    assert not postgres.base.is_relative_to(tmp_path)
    assert postgres.data.parent.stat().st_mode & 0o777 == 0o700
    assert postgres.data.parent.stat().st_uid == server_uid(postgres) != 0
    assert postgres.base.stat().st_uid == 0
    base = postgres.base
    postgres.stop()
    assert postgres.start()
    assert postgres.base == base
    assert modes(tmp_path) == before
    postgres.wipe()
    assert not base.exists()


def test_a_folder_planted_in_the_way_is_not_used(tmp_path: Path) -> None:
    user = server_user(tmp_path)
    base = find_base(tmp_path, user, no_leftover)
    os.chown(base, user.uid, user.gid)
    try:
        assert recorded_base(tmp_path) is None
        other = find_base(tmp_path, user, no_leftover)
        assert other != base
        assert recorded_base(tmp_path) == other
        other.rmdir()
    finally:
        base.rmdir()


def test_state_deleted_beneath_the_server(postgres: EmbeddedPostgres) -> None:
    postgres.start()
    former = postgres._pid_hint()
    assert former
    shutil.rmtree(postgres.root)
    assert postgres.start()
    assert postgres._pid_hint() != former
    with psycopg.connect(postgres.url()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert not psutil.pid_exists(former) or (
        psutil.Process(former).status() == psutil.STATUS_ZOMBIE
    )


def test_closed_programs_are_copied(tmp_path: Path, postgres: EmbeddedPostgres) -> None:
    package = find_binaries(None).folder.parents[1]
    for source in (package, package.with_name(f"{package.name}.libs")):
        if source.is_dir():
            shutil.copytree(source, tmp_path / source.name, symlinks=True, copy_function=_link)
    programs = tmp_path / package.name / "pginstall" / "bin"
    server = EmbeddedPostgres(postgres.root, programs, durable=False)
    assert server.start()
    assert [path for path in postgres.base.iterdir() if path.name.startswith("postgres-")]
    with psycopg.connect(server.url()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_the_owner_of_the_state_runs_the_server(open_folder: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    os.chown(open_folder, nobody.pw_uid, nobody.pw_gid)
    postgres = EmbeddedPostgres(open_folder / "postgres", durable=False)
    try:
        postgres.start()
        assert server_uid(postgres) == nobody.pw_uid
        # Where the virtual environment is not readable to that user, there is a copy of the
        # programs too, which is root's on purpose.
        theirs = [p for p in postgres.root.iterdir() if not p.name.startswith("postgres-")]
        assert {path.stat().st_uid for path in theirs} == {nobody.pw_uid}
    finally:
        postgres.wipe()


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
