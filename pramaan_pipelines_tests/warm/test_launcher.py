"""One run, one process, whatever fails: the warm launcher attacked."""

import os
import signal

import psutil
import pytest
from dagster import DagsterInstance, DagsterRunStatus
from dagster._core.launcher.base import WorkerStatus

from pramaan_pipelines.orchestration.warm.launcher import WARM_TAG
from pramaan_pipelines_tests.warm.conftest import Site

pytestmark = pytest.mark.e2e


def test_each_run_has_a_process_of_its_own_and_shares_nothing_with_another(site: Site) -> None:
    runs = [site.finished(site.launch("looking")) for _ in range(2)]
    assert [run.status for run in runs] == [DagsterRunStatus.SUCCESS] * 2
    for run in runs:
        assert run.tags[WARM_TAG] == run.tags["pid"]
        assert run.tags["given"] == "a setting"
    one, other = (run.tags for run in runs)
    assert one["pid"] != other["pid"]
    assert one["parent"] == other["parent"], "both are forked from one zygote"
    assert one["chance"] != other["chance"]
    site.wait_until(lambda: list(site.workers.folder.iterdir()) == [])


def test_a_worker_finds_what_every_run_imports_imported(site: Site) -> None:
    """A module is time in every run: what was a third of one is the zygote's to import."""
    run = site.finished(site.launch("looking"))
    late = run.tags["late"].split()
    assert "dagster._core.executor.in_process" not in late
    assert len(late) < 15, late


def test_a_worker_that_dies_fails_its_run_at_once_with_the_reason(site: Site) -> None:
    died, killed = site.launch("dying"), site.launch("waiting")
    assert site.finished(died).status is DagsterRunStatus.FAILURE
    assert "exited with code 7" in site.texts(died)

    site.wait_until(lambda: "STEP_START" in _kinds(site, killed))
    os.kill(int(site.run(killed).tags[WARM_TAG]), signal.SIGKILL)
    assert site.finished(killed).status is DagsterRunStatus.FAILURE
    assert "SIGKILL" in site.texts(killed)


def test_a_run_is_terminated_from_another_process_than_its_daemon(site: Site) -> None:
    run_id = site.launch("waiting")
    site.wait_until(lambda: "STEP_START" in _kinds(site, run_id))
    with DagsterInstance.from_config(str(site.home)) as webserver:
        assert webserver.run_launcher.terminate(run_id)
    assert site.finished(run_id).status is DagsterRunStatus.CANCELED
    assert not site.instance.run_launcher.terminate(run_id), "it has ended"


def test_a_worker_outlives_its_zygote_and_is_found_when_it_dies_too(site: Site) -> None:
    run_id = site.launch("waiting")
    site.wait_until(lambda: "STEP_START" in _kinds(site, run_id))
    worker = psutil.Process(int(site.run(run_id).tags[WARM_TAG]))
    zygote = worker.parent()
    assert zygote is not None
    zygote.kill()
    zygote.wait(10)

    launcher = site.instance.run_launcher
    assert launcher.supports_check_run_worker_health
    assert launcher.check_run_worker_health(site.run(run_id)).status is WorkerStatus.RUNNING
    cold, after = (site.finished(site.launch("looking")) for _ in range(2))
    assert [run.status for run in (cold, after)] == [DagsterRunStatus.SUCCESS] * 2
    assert WARM_TAG not in cold.tags, "its zygote was gone: Dagster's own launcher ran it"
    assert WARM_TAG in after.tags, "a new zygote serves"
    assert after.tags["parent"] != str(zygote.pid)

    worker.kill()
    site.wait_until(
        lambda: launcher.check_run_worker_health(site.run(run_id)).status is WorkerStatus.FAILED
    )
    assert site.workers.alive(run_id) is None


def test_a_zygote_that_stands_still_neither_loses_nor_doubles_a_run(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    zygote = int(site.finished(site.launch("looking")).tags["parent"])
    monkeypatch.setattr("pramaan_pipelines.orchestration.warm.launcher.FORK_SECONDS", 0.5)
    os.kill(zygote, signal.SIGSTOP)
    run = site.finished(site.launch("looking"))
    assert run.status is DagsterRunStatus.SUCCESS
    assert WARM_TAG not in run.tags, "Dagster's own launcher ran it"
    assert site.texts(run.run_id).count("Started process for run") == 1
    assert not psutil.pid_exists(zygote) or psutil.Process(zygote).status() == "zombie"


def test_a_location_that_was_reloaded_runs_its_new_code(site: Site) -> None:
    assert site.finished(site.launch("looking")).tags["version"] == "first"
    old = site.source.read_text()
    site.source.write_text(old.replace('VERSION = "first"', 'VERSION = "the second"'))
    site.process.reload_code_location("warm_test_location")
    run = site.finished(site.launch("looking"))
    assert (run.tags["version"], WARM_TAG in run.tags) == ("the second", True)


@pytest.mark.parametrize(
    "line",
    [
        "import threading; threading.Thread(target=time.sleep, args=(120,), daemon=True).start()",
        "import sys; sys.argv[0].endswith('zygote.py') and sys.exit('not here')",
    ],
    ids=["its import starts a thread", "its import fails in the zygote"],
)
def test_what_cannot_be_warm_runs_as_dagster_runs_it(site: Site, line: str) -> None:
    site.source.write_text(f"{site.source.read_text()}\n{line}\n")
    site.process.reload_code_location("warm_test_location")
    run = site.finished(site.launch("looking"))
    assert run.status is DagsterRunStatus.SUCCESS
    assert WARM_TAG not in run.tags


def test_a_run_that_has_a_worker_gets_no_second(site: Site) -> None:
    run_id = site.launch("waiting")
    with pytest.raises(BlockingIOError), site.workers.registered(run_id):
        pytest.fail("two workers of one run")


def test_the_zygote_holds_no_connection_and_ends_with_its_launcher(site: Site) -> None:
    parent = int(site.finished(site.launch("looking")).tags["parent"])
    zygote = psutil.Process(parent)
    assert zygote.net_connections() == []
    assert zygote.num_threads() == 1
    site.instance.run_launcher.dispose()
    zygote.wait(10)


def _kinds(site: Site, run_id: str) -> set[str]:
    return {
        entry.dagster_event.event_type_value
        for entry in site.instance.all_logs(run_id)
        if entry.dagster_event
    }
