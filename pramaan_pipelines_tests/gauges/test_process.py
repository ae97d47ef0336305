"""`pramaan metrics` as a process: what it exports, what it outlives, and how it ends."""

import json
import socket
import time
from pathlib import Path

import psutil
import pytest

from pramaan_pipelines import cli
from pramaan_pipelines.gauges.endpoint import CONNECTIONS
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.queues import FRAMER_EVENTS, consumer_of
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST, DOMAIN_EVENT, LANES
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.telemetry.metrics import REGISTRY, GaugeMetric, prometheus_name
from pramaan_pipelines_tests.gauges.bench import Site, metrics
from pramaan_pipelines_tests.outbox.bench import put
from pramaan_pipelines_tests.support.collector import Collector, black_hole, collector
from pramaan_pipelines_tests.support.waiting import until
from pramaan_pipelines_tests.watch.bench import job

EVERY_GAUGE = {prometheus_name(name) for name in GaugeMetric}
AGES = {"pramaan_database_reading_age_seconds", "pramaan_queues_reading_age_seconds"}
OF_QUEUES = {"pramaan_queue_depth", "pramaan_dead_letters", "pramaan_undeliverable_events"}
MAX_SERIES = 60
LISTEN = ("--listen", "127.0.0.1:0", "--every", "1")


def furnish(site: Site) -> None:
    """Let something stand everywhere."""
    world = site.world
    put(world, DOCUMENT_INGEST, 3)
    put(world, DOCUMENT_INGEST, 2, event_type="document.shred.requested")
    put(world, DOMAIN_EVENT, 2)
    world.god.execute(
        "UPDATE ops.domain_event_outbox SET parked_at = now(), parked_reason = 'x' "
        "WHERE id = (SELECT min(id) FROM ops.domain_event_outbox)"
    )
    world.god.execute(
        "UPDATE ops.document_ingest_outbox SET created_at = now() - interval '1 hour'"
    )
    job(world, "running", claimed=1)
    job(world, "running", claimed=600)
    job(world, "failed", tries=9)
    job(world, "idle", rebuild=True)
    job(world, "idle", skipped=5, firm=world.firm_without_consent)
    sqs = client("sqs", site.settings)
    framer = consumer_of(site.settings, FRAMER_EVENTS)
    sqs.send_message(QueueUrl=framer._queue_url, MessageBody="one")
    sqs.send_message(QueueUrl=framer.dead_letters()._queue_url, MessageBody="two")


def test_every_gauge_comes_by_both_roads_and_past_both_outages(site: Site, tmp_path: Path) -> None:
    furnish(site)
    with (
        collector() as receiver,
        metrics(
            tmp_path,
            site.variables
            | receiver.environment()
            | {"OTEL_METRIC_EXPORT_INTERVAL": "300", "PRAMAAN_LOG_FORMAT": "json"},
            *LISTEN,
        ) as running,
    ):
        # It begins while neither Postgres nor AWS is there, and says so.
        until(lambda: running.names() == AGES)
        age = running.number("pramaan_database_reading_age_seconds") or 0
        until(lambda: (running.number("pramaan_database_reading_age_seconds") or 0) > age + 1)
        site.to_database.mend()
        site.to_aws.mend()
        until(lambda: running.names() == EVERY_GAUGE, seconds=30)
        found = running.ours()
        assert len(found) <= MAX_SERIES

        assert running.number("pramaan_outbox_pending", lane=DOCUMENT_INGEST.name) == 3
        assert running.number("pramaan_outbox_pending", lane=DOMAIN_EVENT.name) == 1
        assert running.number("pramaan_outbox_parked", lane=DOMAIN_EVENT.name) == 1
        assert running.number("pramaan_outbox_unclaimed") == 2
        oldest = running.number(
            "pramaan_outbox_oldest_pending_age_seconds", lane=DOCUMENT_INGEST.name
        )
        assert oldest is not None
        assert 3600 <= oldest < 4000
        statuses = {"idle": 2, "running": 2, "failed": 1}
        for status, count in statuses.items():
            assert running.number("pramaan_frame_jobs", status=status) == count
        for name, count in {"stale": 1, "owed": 1, "given_up": 1, "consent_blocked": 1}.items():
            assert running.number(f"pramaan_frame_jobs_{name}") == count, name
        lane = DOMAIN_EVENT.name
        assert running.number("pramaan_queue_depth", lane=lane, status="visible") == 1
        assert running.number("pramaan_queue_depth", lane=lane, status="in_flight") == 0
        assert running.number("pramaan_dead_letters", lane=lane) == 1
        assert running.number("pramaan_undeliverable_events") == 0

        # The same numbers, with no label but the registry's, go to the collector.
        until(lambda: {p.metric for p in receiver.points()} >= set(GaugeMetric))
        check_points(receiver)

        # Each outage takes its own numbers and leaves the other's; a stale number is none.
        site.to_database.cut()
        until(lambda: running.names() == AGES | OF_QUEUES, seconds=30)
        site.to_database.mend()
        until(lambda: running.names() == EVERY_GAUGE, seconds=30)
        site.to_aws.cut()
        until(lambda: running.names() == EVERY_GAUGE - OF_QUEUES, seconds=60)
        site.to_aws.mend()
        until(lambda: running.names() == EVERY_GAUGE, seconds=60)

        mine = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND datname = %s"
        database = site.variables["DATABASE_URL"].partition("?")[0].rsplit("/", 1)[-1]
        assert site.world.one(mine, "pramaan-pipelines", database) <= 4  # two are the test's own
        before = len(receiver.points())
        assert running.end() == 0
        assert len(receiver.points()) > before, "what stood at the end was handed over"
    told = [json.loads(line) for line in (tmp_path / "metrics.log").read_text().splitlines()]
    lines = [line["message"].split(":")[0] for line in told]
    assert lines.count("the database can be read again") == 2
    assert lines.count("the queues can be read again") == 2
    assert all(line["level"] == "WARNING" for line in told)
    assert "hunter2" not in str(told)


def check_points(receiver: Collector) -> None:
    for point in receiver.points():
        spec = REGISTRY[point.metric]
        assert point.kind == "gauge"
        assert point.unit == spec.unit
        assert set(point.labels) == set(spec.labels)
        assert point.resource["deployment.environment.name"] == "test"
    lanes = {p.labels["lane"] for p in receiver.points("pramaan.outbox.pending")}
    assert lanes == {lane.name for lane in LANES}


def test_a_collector_that_never_answers_keeps_it_neither_from_serving_nor_from_ending(
    site: Site, tmp_path: Path
) -> None:
    site.to_database.mend()
    site.to_aws.mend()
    with (
        black_hole() as url,
        metrics(
            tmp_path,
            site.variables
            | {
                "OTEL_EXPORTER_OTLP_ENDPOINT": url,
                "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
                "OTEL_METRIC_EXPORT_INTERVAL": "200",
            },
            *LISTEN,
        ) as running,
    ):
        until(lambda: running.names() == EVERY_GAUGE, seconds=30)
        # Whoever connects and says nothing takes a place, and gives it back.
        host, port = running.url.split("/")[2].split(":")
        idle = [socket.create_connection((host, int(port))) for _ in range(CONNECTIONS * 3)]
        for connection in idle:
            connection.close()
        until(lambda: running.names() == EVERY_GAUGE, seconds=30)
        assert running.end() == 0
    assert not (tmp_path / "metrics.log").read_text().count("Traceback")


Capture = pytest.CaptureFixture[str]


def test_without_anywhere_to_export_to_it_says_what_to_set(
    configured: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    del configured
    monkeypatch.chdir(tmp_path)
    assert cli.main(["metrics"]) == 1
    assert "set OTEL_EXPORTER_OTLP_ENDPOINT, or give --listen" in capsys.readouterr().err


def test_a_taken_address_and_a_wrong_one_are_told(
    configured: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    del configured
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        assert cli.main(["metrics", "--listen", where]) == 1
    assert f"cannot listen at {where}" in capsys.readouterr().err
    for wrong in ("9464", "127.0.0.1:", "127.0.0.1:70000", ":9464"):
        with pytest.raises(SystemExit, match="2"):
            cli.main(["metrics", "--listen", wrong])
        assert "127.0.0.1:9464" in capsys.readouterr().err


@pytest.mark.long
def test_it_does_not_grow(site: Site, tmp_path: Path) -> None:
    """A look a second for a minute, and a scrape with each."""
    site.to_database.mend()
    site.to_aws.mend()
    with metrics(tmp_path, site.variables, *LISTEN) as running:
        until(lambda: running.names() == EVERY_GAUGE, seconds=30)
        process = psutil.Process(running.process.pid)

        def look(seconds: int) -> tuple[int, int, int]:
            for _ in range(seconds):
                running.scrape()
                time.sleep(1)
            return process.memory_info().rss, process.num_threads(), process.num_fds()

        rss, threads, files = look(20)
        later = look(40)
        assert later[0] < rss + 10 * 1024 * 1024
        assert later[1] <= threads + 8  # a look under way has a thread for each queue
        assert later[2] <= files + 8
        assert running.end() == 0
