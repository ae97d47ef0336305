"""The road of each process: everything by which it calls AWS, so that what it lacks is felt.

Each step asserts that it did its work; the first that could not ends the road.
"""

from itertools import product

import pytest

from pramaan_pipelines.cli import main
from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.messaging import provision as provision_module
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.policies import Process
from pramaan_pipelines.messaging.provision import provision, template_body
from pramaan_pipelines.messaging.queues import DeadLetterQueue
from pramaan_pipelines.outbox.lanes import LANES
from pramaan_pipelines.outbox.producers import insert_document_ingest_event, request_registration
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.watch.look import Watch
from pramaan_pipelines_tests.operations.bench import HOSTILE, Letters, press, stand_on
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.orchestration.test_framer_sensor import tick
from pramaan_pipelines_tests.orchestration.test_relay_jobs import relay


def prepare(rail: Rail) -> None:
    """Put on the road, as the application and the account's root, what there is to do."""
    world, firm = rail.world, rail.world.firm_a
    for table in ("document_ingest_outbox", "domain_event_outbox", "matter_frame_jobs"):
        world.god.execute(f"DELETE FROM ops.{table}")  # noqa: S608 - names of ours
    world.god.execute("DELETE FROM agents.agent_run")
    sqs = client("sqs", rail.settings)
    for url in sqs.list_queues()["QueueUrls"]:
        sqs.purge_queue(QueueUrl=url)
    world.created_matter(firm)
    document = world.document(firm)
    with world.database.firm(firm) as connection:
        insert_document_ingest_event(connection, firm_id=firm, document_id=document)
        request_registration(connection, firm_id=firm, document_id=document)
    letters = Letters(rail)
    for name in DeadLetterQueue:
        stand_on(rail, name, letters.good(), HOSTILE)
    rail.send(HOSTILE)


def code_location(rail: Rail) -> None:
    """Relays, sensor, runs to a good and to a bad end, dead letters, and the watch."""
    for lane in LANES:
        assert relay(lane, rail.instance).success
    requests = tick(rail.instance).run_requests or []
    runs = [rail.launch(request) for request in requests]
    assert sorted(str(run.outcome[0]) for run in runs) == ["refused", "started"]
    assert not any(run.hook_errors() for run in runs)
    watch(rail)
    for name, which in product(DeadLetterQueue, ("PASSING", "ALL")):
        config = {"queue": name.name, "which": which, "dry_run": False}
        assert press(
            rail.instance, "redrive_dead_letters_job", "redrive_dead_letters", config
        ).green


def operator(rail: Rail) -> None:
    """Doctor, status, dead letters."""
    assert main(["doctor"]) == 0
    watch(rail)
    for name, which in product(DeadLetterQueue, ("passing", "all")):
        assert main(["dead-letters", "--queue", name, "--redrive", which]) == 0


def watch(rail: Rail) -> None:
    """Read the depth of every queue, as status, checks and metrics do."""
    view = Watch(rail.settings, rail.world.database).queues()
    read = {**view.queues, **view.dead_letters}
    assert len(read) == 7
    assert all(reading.value is not None for reading in read.values())


def provisioner(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Create, update, and an update that fails, whose cause is told."""
    provision(settings, visibility_timeout_seconds=60)
    provision(settings, visibility_timeout_seconds=30)
    wrong = template_body().replace("SqsManagedSseEnabled: true", "DelaySeconds: 99999", 1)
    with monkeypatch.context() as patched:
        patched.setattr(provision_module, "template_body", lambda: wrong)
        with pytest.raises(DestinationError, match="failed: "):
            provision(settings, visibility_timeout_seconds=31)


def walk(process: Process, rail: Rail) -> None:
    """Go the road of `process`, which starts from a stack."""
    match process:
        case Process.CODE_LOCATION:
            code_location(rail)
        case Process.OPERATOR:
            operator(rail)
        case Process.METRICS:
            watch(rail)
        case Process.PROVISIONER:
            raise AssertionError("its road starts from an empty account")
