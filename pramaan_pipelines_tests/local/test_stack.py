"""The stack as a whole: what is given is not started, what was started is found again."""

import os
from pathlib import Path

import psycopg
import pytest
from dotenv import dotenv_values

from pramaan_pipelines.local.embedded import make_ready
from pramaan_pipelines.local.errors import LocalStackError
from pramaan_pipelines.local.stack import Row, down, state_folder, status, up

GIVEN = {"DATABASE_URL": "postgresql://me:secret@db.example/prod", "AWS_ENDPOINT_URL": "http://a:1"}


def test_up_down_up(state: Path) -> None:
    env = state.parent / ".env"
    env.write_text("MINE=1\nPRAMAAN_ENVIRONMENT=ada\n")
    first = up(state, env, {})
    assert first.started == {"postgres", "aws"}
    assert first.environment == "ada"
    written = {k: v or "" for k, v in dotenv_values(env, interpolate=False).items()}
    assert written == {"MINE": "1", **first.variables}
    assert env.stat().st_mode & 0o777 == 0o600
    assert first.aws_access_key_id
    assert len(first.aws_access_key_id) == 12
    assert written["OTEL_PROPAGATORS"] == "xray,tracecontext"
    for key, role in (
        ("DATABASE_URL", "pramaan_app"),
        ("MIGRATION_DATABASE_URL", "pramaan_owner"),
        ("MAINTENANCE_DATABASE_URL", "pramaan_maintenance"),
    ):
        with psycopg.connect(written[key]) as connection:
            assert connection.execute("SELECT current_user").fetchone() == (role,)
        password = written[key].split(":")[2].split("@")[0]
        assert password not in repr(first)

    # A shell that loaded the .env, whose port may be a former one, gives nothing.
    moved = written | {"DATABASE_URL": first.database_url.replace("127.0.0.1:", "127.0.0.1:1")}
    second = up(state, env, moved)
    assert second.started == frozenset()
    assert second.variables == first.variables
    text = env.read_text()
    assert [row.state for row in status(state, moved)] == ["running", "running"]
    assert not any("@" in row.where for row in status(state))

    down(state)
    down(state)
    assert [row.state for row in status(state)] == ["stopped", "stopped"]
    third = up(state, env, {})
    assert third.started == {"postgres", "aws"}
    assert env.read_text() == text
    down(state, wipe=True, env_file=env)
    assert not state.exists()
    assert "MINE=1" in env.read_text()


def test_wipe_takes_along_the_env_file_that_it_made(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = state.parent / ".env"
    monkeypatch.setattr(os, "environ", dict(os.environ))
    make_ready(state, env, {})
    down(state, env_file=env)
    assert env.exists()
    down(state, wipe=True, env_file=env)
    assert not env.exists()
    assert not state.exists()


def test_what_is_given_is_not_started(state: Path) -> None:
    env = state.parent / ".env"
    stack = up(state, env, GIVEN)
    assert stack.started == frozenset()
    assert stack.database_url == GIVEN["DATABASE_URL"]
    assert stack.aws_endpoint_url == GIVEN["AWS_ENDPOINT_URL"]
    assert stack.migration_database_url is None
    assert "secret" not in env.read_text()
    assert not state.exists()
    assert status(state, GIVEN) == [
        Row("postgres", "given", "DATABASE_URL"),
        Row("aws", "given", "AWS_ENDPOINT_URL"),
    ]
    assert [row.state for row in status(state)] == ["absent", "absent"]
    down(state)
    assert not state.exists()


def test_a_users_line_in_the_file_counts_as_given(state: Path) -> None:
    env = state.parent / ".env"
    lines = "".join(f"{key}={value}\n" for key, value in GIVEN.items())
    env.write_text(lines)
    assert up(state, env, {}).started == frozenset()
    assert env.read_text().startswith(lines)


def test_our_urls_leave_the_file_when_another_is_given(state: Path) -> None:
    env = state.parent / ".env"
    environ = {"AWS_ENDPOINT_URL": GIVEN["AWS_ENDPOINT_URL"]}
    assert up(state, env, environ).started == {"postgres"}
    assert "MIGRATION_DATABASE_URL" in env.read_text()
    assert "AWS_ACCESS_KEY_ID" not in env.read_text()
    up(state, env, GIVEN)
    assert "DATABASE_URL" not in env.read_text()


def test_wipe_leaves_what_others_keep_there(state: Path) -> None:
    state.mkdir()
    (state / "other").touch()
    down(state, wipe=True)
    assert [path.name for path in state.iterdir()] == ["other"]
    (state / "other").unlink()


def test_where_the_state_is(tmp_path: Path) -> None:
    inner = tmp_path / "project" / "deep"
    inner.mkdir(parents=True)
    assert state_folder({}, inner) == inner / ".pramaan"
    (tmp_path / "project" / "pyproject.toml").touch()
    assert state_folder({}, inner) == tmp_path / "project" / ".pramaan"
    assert state_folder({"PRAMAAN_STATE_DIR": str(tmp_path)}, inner) == tmp_path


def test_named_programs_reach_postgres(state: Path) -> None:
    environ = {"PRAMAAN_PG_BIN": str(state), "AWS_ENDPOINT_URL": "http://a:1"}
    with pytest.raises(LocalStackError, match="PRAMAAN_PG_BIN"):
        up(state, None, environ)
