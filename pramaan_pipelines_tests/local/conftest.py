"""Servers that are gone, with their data, when the test is."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pramaan_pipelines.local.aws import EmbeddedAws
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.stack import down

Run = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "a folder" / "postgres"


@pytest.fixture
def postgres(root: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(root, durable=False)
    yield server
    server.wipe()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server for tests that leave its data usable; each starts it, whatever became of it."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("shared") / "a folder", durable=False)
    yield server
    server.wipe()


@pytest.fixture
def aws(tmp_path: Path) -> Iterator[EmbeddedAws]:
    server = EmbeddedAws(tmp_path / "a folder" / "aws")
    yield server
    server.wipe()


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "a project" / ".pramaan"
    folder.parent.mkdir()
    yield folder
    down(folder, wipe=True)


@pytest.fixture
def python() -> Iterator[Run]:
    """Run code in a process with a session of its own, as a terminal would."""
    processes = []

    def run(code: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()
