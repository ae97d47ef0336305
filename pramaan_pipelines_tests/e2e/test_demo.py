"""The whole road at once, as `make demo` runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

EXPECTED = {
    "document 1 uploaded": "delivered",
    "document 2 uploaded": "delivered",
    "document 3 uploaded": "delivered",
    "document 1 indexed, registration asked for twice": "delivered",
    "document 2 indexed, registration asked for twice": "delivered",
    "matter created": "started",
    "another matter of that firm": "started",
    "matter of another firm": "started",
    "matter of a firm without consent": "consent_blocked",
    "the same event again": "duplicate",
    "a firm names another firm's matter": "refused: subject_not_visible",
    "another environment's event": "refused: wrong_environment",
    "a body that is not JSON": "refused: malformed",
    "a body that is not an object": "refused: malformed",
    "an unknown field": "refused: malformed",
    "an unknown event type": "refused: malformed",
    "a body of 300 kB": "refused: malformed",
}


def test_demo_brings_every_event_to_its_end_through_the_real_daemon(tmp_path: Path) -> None:
    state = tmp_path / "state"
    finished = subprocess.run(
        [sys.executable, "-m", "pramaan_pipelines.cli", "demo", "--json"],
        env={**os.environ, "PRAMAAN_STATE_DIR": str(state)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=230,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr + finished.stdout
    rows = json.loads(finished.stdout)
    assert {row["name"]: row["became"] for row in rows} == EXPECTED
    assert all(row["faults"] == [] for row in rows)
    assert all(row["run_ids"] for row in rows), "each is traced to the Dagster run that moved it"
    assert not (state / "demo").exists(), "the demo leaves nothing behind"
