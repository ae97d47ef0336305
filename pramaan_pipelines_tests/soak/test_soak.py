"""A soak of seconds: the ledger must be good however short it was."""

import json
import os
import subprocess
import sys

import pytest


@pytest.mark.long
def test_the_ledger_of_a_short_soak_is_good() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pramaan_pipelines_tests.soak", "--minutes", "0.4", "--json"],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=235,
        check=False,
    )
    told = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, told
    ledger = json.loads(done.stdout)
    assert ledger["good"], told
    assert ledger["faults"]["workers killed"] > 0, told
    ends = ledger["events"]
    assert ends.pop("produced") == sum(ends.values()) > 0, told
    documents = ledger["documents"]
    assert documents["produced"] == documents["delivered"] > 0, told
