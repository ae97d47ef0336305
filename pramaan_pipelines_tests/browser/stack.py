"""`pramaan dev` from a copy of the checkout, so that no `.env` of a person's is touched."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dotenv import dotenv_values

from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.e2e.live import kill_everything
from pramaan_pipelines_tests.support.aws import free_port

COPIED = ("workspace.yaml", "dagster.yaml", "pyproject.toml")
START_SECONDS = 180.0
STOP_SECONDS = 60.0
OURS = ("PRAMAAN_", "AWS_", "DAGSTER_", "DATABASE_", "DOCUMENT_", "FRAMER_", "EVENT_")


@dataclass(frozen=True)
class DevStack:
    """A running `pramaan dev`: its UI, and the database as the application reaches it."""

    url: str
    database: Database


@contextmanager
def dev_stack(repository: Path, folder: Path) -> Iterator[DevStack]:
    """Run `pramaan dev` while the block runs; all that it started ends with it."""
    checkout = folder / "checkout"
    checkout.mkdir()
    for name in COPIED:
        shutil.copyfile(repository / name, checkout / name)
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("pramaan_pipelines", "migrations"):
        shutil.copytree(repository / name, checkout / name, ignore=ignored)
    port, said = free_port(), folder / "dev.log"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    with said.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "pramaan_pipelines.cli", "dev", "--port", str(port)],
            # The copy is what runs: `-m` puts the folder it runs in first.
            cwd=checkout,
            env={**kept, "PRAMAAN_STATE_DIR": str(folder / "state")},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while "Pramaan is running" not in said.read_text():
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < deadline, said.read_text()
            time.sleep(0.3)
        database = Database.connect(str(dotenv_values(checkout / ".env")["DATABASE_URL"]))
        yield DevStack(f"http://127.0.0.1:{port}", database)
        database.close()
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            kill_everything(process)
