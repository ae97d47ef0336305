"""`pramaan dev` beside another one, on a port that is taken, and on a `.env` that disagrees."""

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pramaan_pipelines.cli import main
from pramaan_pipelines.local.dev import _only_one, _port
from pramaan_pipelines.local.errors import LocalStackError


def test_a_second_dev_on_one_state_folder_is_refused(tmp_path: Path) -> None:
    """Two daemons on one instance would evaluate every schedule twice."""
    with (tmp_path / "dev.lock").open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        with pytest.raises(LocalStackError, match="is running on"), _only_one(tmp_path):
            raise AssertionError("two at once")
    with _only_one(tmp_path):
        pass


def test_a_port_that_is_taken_is_said_before_anything_is_started() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(LocalStackError, match="is taken; give another by --port"):
            _port(taken.getsockname()[1])


def test_dev_runs_in_the_checkout_only(tmp_path: Path) -> None:
    """Dagster reads the .env of the folder it runs in, which must be the one that dev writes."""
    done = subprocess.run(
        [sys.executable, "-m", "pramaan_pipelines.cli", "dev"],
        cwd=tmp_path,
        env={**os.environ, "PRAMAAN_STATE_DIR": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "run `pramaan dev` in the checkout" in done.stderr


def test_a_dot_env_that_disagrees_with_the_environment_wins_as_in_dagster_and_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRAMAAN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("DATABASE_URL", "postgresql://pramaan_app:Sup3r@127.0.0.1:1/one")
    monkeypatch.setenv("PRAMAAN_ENVIRONMENT", "test")
    Path(".env").write_text("DATABASE_URL=postgresql://pramaan_app:Sup3r@127.0.0.1:2/two\n")
    assert main(["status"]) == 1
    told = capsys.readouterr()
    assert ".env overrides DATABASE_URL of the environment" in told.err
    assert "127.0.0.1:2 gives no connection" in told.out
    assert "Sup3r" not in told.out + told.err
