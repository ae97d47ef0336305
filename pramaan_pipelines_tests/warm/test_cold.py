"""What keeps a run from being warm costs it no more than its warmth."""

import subprocess
from typing import Any

import pytest
from dagster import DagsterRun, DagsterRunStatus

from pramaan_pipelines.orchestration.warm.launcher import FOLDER, WARM_TAG
from pramaan_pipelines_tests.warm.conftest import Site

pytestmark = pytest.mark.e2e


class Starts:
    """Counts the zygotes that are started; where told so, the machine has no process left."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        self.possible = True
        self._start = subprocess.Popen
        monkeypatch.setattr(subprocess, "Popen", self)

    def __call__(self, command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        if any(part.endswith("warm.zygote") for part in command):
            self.number += 1
            if not self.possible:
                raise BlockingIOError(11, "Resource temporarily unavailable")
        return self._start(command, **options)


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    return Starts(monkeypatch)


def cold(run: DagsterRun) -> bool:
    assert run.status is DagsterRunStatus.SUCCESS
    return WARM_TAG not in run.tags


def test_a_machine_that_starts_no_zygote_runs_as_dagster_runs_it(
    site: Site, starts: Starts
) -> None:
    starts.possible = False
    assert cold(site.finished(site.launch("looking")))
    assert starts.number == 1


def test_a_folder_that_takes_no_worker_runs_as_dagster_runs_it(site: Site) -> None:
    (site.home / FOLDER).touch()
    assert cold(site.finished(site.launch("looking")))


def test_code_that_cannot_be_warm_is_tried_once_and_again_when_it_was_reloaded(
    site: Site, starts: Starts
) -> None:
    """Or each run would pay for a start in vain, and for a minute where an import stands still."""
    good = site.source.read_text()
    late = "import threading; threading.Thread(target=time.sleep, args=(120,), daemon=True).start()"
    site.source.write_text(f"{good}\n{late}\n")
    site.process.reload_code_location("warm_test_location")
    runs = [site.launch("looking") for _ in range(3)]
    assert all(cold(site.finished(run)) for run in runs)
    assert starts.number == 1

    site.source.write_text(good)
    site.process.reload_code_location("warm_test_location")
    assert not cold(site.finished(site.launch("looking")))
