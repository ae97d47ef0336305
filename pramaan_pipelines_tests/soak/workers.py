"""The workers, each for a process of its own that may be killed at any moment.

Each does what the deployed part does, by the real code, again and again; an error ends one round of
it and is told. Only the agent's runtime is a stand-in.
"""

import json
import os
import random
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch
from uuid import UUID

from dagster import DagsterInstance, JobDefinition, RunRequest
from sqlalchemy import Connection, text

from pramaan_pipelines.contracts.invoke import InvokeAnswer, InvokePayload
from pramaan_pipelines.contracts.outcomes import Outcome, SkipReason
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.definitions import defs
from pramaan_pipelines.framer import gates, redelivery
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines.framer.completion import complete_frame, extend_frame_lease
from pramaan_pipelines.framer.gates import is_handled
from pramaan_pipelines.framer.healing import FrameHealing
from pramaan_pipelines.framer.sweep import sweep_stale_matter_frame_jobs
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.messaging.publisher import OutboundMessage, Publisher, SendResult
from pramaan_pipelines.orchestration import framer, healing, resources
from pramaan_pipelines.outbox.lanes import LANES, Lane
from pramaan_pipelines.outbox.relay import run_relay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry
from pramaan_pipelines_tests.soak.site import LEASE_SECONDS, MAX_TRIES, Journal

LIMITS: Final = DrainLimits(rows=5, send_seconds=5, pause_seconds=0.5, max_pause_seconds=2)
QUIET: Final = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
with warnings.catch_warnings():
    # Dagster 1.13.27 warns of a parameter that it passes to itself, for every sensor with a job.
    warnings.filterwarnings("ignore", "Parameter .owners. of initializer .SensorDefinition")
    # Here, so that the server which the workers are forked from has them made.
    FRAMER_JOB: Final = defs.resolve_job_def("framer_trigger_job")
    HEALING_JOB: Final = defs.resolve_job_def("frame_healing_job")

GENERATION: Final = text(
    "SELECT claimed_generation FROM ops.matter_frame_jobs WHERE matter_id = :matter"
)


class Hands:
    """What a worker has to work with."""

    def __init__(self, journal: Journal, chance: random.Random) -> None:
        self.journal = journal
        self.chance = chance
        self.settings = Settings.load()
        self.database = Database.connect(self.settings.database_url)
        self.telemetry = Telemetry.current(self.settings.pramaan_environment)

    def queue(self, name: str) -> QueueConsumer:
        """Return the consumer of the queue that the setting `name` tells."""
        return QueueConsumer(client("sqs", self.settings), self.settings.require(name))


Round = Callable[[], object]


class SlowNetwork:
    """A lane's publisher whose answers take their time now and then: more kills fall there."""

    def __init__(self, inner: Publisher, hands: Hands) -> None:
        self._inner = inner
        self._hands = hands

    @property
    def destination(self) -> str:
        return self._inner.destination

    def verify(self) -> None:
        self._inner.verify()

    def send(self, messages: Sequence[OutboundMessage], *, deadline: float) -> list[SendResult]:
        results = self._inner.send(messages, deadline=deadline)
        if not self._hands.journal.calm and self._hands.chance.random() < 0.5:
            time.sleep(self._hands.chance.uniform(0, 0.5))
        return results


def relay(lane: Lane, hands: Hands) -> Round:
    """Drain one lane."""
    return partial(
        run_relay,
        lane,
        database=hands.database,
        publisher=SlowNetwork(lane.publisher(hands.settings), hands),
        telemetry=hands.telemetry,
        limits=LIMITS,
        budget_seconds=2,
    )


class Runtime:
    """The agent's runtime: mostly it builds the frame; it may fail, tarry, or work on alone."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands

    def invoke(self, payload: InvokePayload) -> InvokeAnswer:
        journal, chance = self._hands.journal, self._hands.chance
        run = {"firm": payload.firm_id, "run": payload.agent_run_id}
        journal.tell("invoke", **run)
        if journal.calm:
            return InvokeAnswer.DONE
        fate = chance.random()
        if fate < 0.06:
            raise ConnectionError("the runtime is out")
        if fate < 0.2:
            journal.tell("accepted", **run)
            return InvokeAnswer.ACCEPTED
        if fate < 0.26:
            return InvokeAnswer.ACCEPTED  # and forgets it
        if fate < 0.3:
            time.sleep(LEASE_SECONDS + 1)  # a zombie by the time that it is done
        else:
            time.sleep(chance.uniform(0, 0.3))
        return InvokeAnswer.DONE


class ToldClaims(FrameJobClaims):
    """The real claims, which also tell what came of each, before any message is deleted for it."""

    journal: Journal

    def claim(self, request: FrameRequest, trace: TraceContext) -> Claim | Outcome:
        with self._database.firm(request.firm_id) as connection:
            before = connection.scalar(GENERATION, {"matter": request.matter_id}) or 0
        won = super().claim(request, trace)
        self._tell(request, "won" if isinstance(won, Claim) else str(won), before)
        return won

    def record_skip(self, request: FrameRequest, reason: SkipReason) -> Outcome:
        outcome = super().record_skip(request, reason)
        self._tell(request, str(outcome), 0)
        return outcome

    def _tell(self, request: FrameRequest, outcome: str, before: int) -> None:
        self.journal.tell("outcome", event=request.event_id, outcome=outcome, before=before)


def told_dedupe(journal: Journal, connection: Connection, **event: UUID) -> bool:
    """The real dedupe gate, which also tells of each duplicate."""
    handled = is_handled(connection, **event)
    if handled:
        outcome = str(Outcome.DUPLICATE)
        journal.tell("outcome", event=event["event_id"], outcome=outcome, before=0)
    return handled


class Daemon:
    """Runs jobs in this process as Dagster's daemon has a run worker do."""

    def __init__(self, hands: Hands) -> None:
        told = type("Told", (ToldClaims,), {"journal": hands.journal})
        patch.object(resources, "LoggingAgent", lambda: Runtime(hands)).start()
        patch.object(resources, "FrameJobClaims", told).start()
        patch.object(gates, "is_handled", partial(told_dedupe, hands.journal)).start()
        patch.object(redelivery, "FIRST_PAUSE_SECONDS", 1).start()
        self._instance = DagsterInstance.ephemeral()

    def run(self, job: JobDefinition, request: RunRequest) -> None:
        job.execute_in_process(
            run_config={**request.run_config, **QUIET},
            tags=request.tags,
            instance=self._instance,
            raise_on_error=False,  # a run that fails is one more fault to bear
        )


def framing(hands: Hands) -> Round:
    """Receive messages and run each."""
    daemon = Daemon(hands)
    queue = hands.queue("framer_events_queue_url")

    def go() -> None:
        for message in queue.receive(2, 1):
            hands.journal.tell("delivery", message=message.message_id)
            daemon.run(FRAMER_JOB, framer.run_request(message))

    return go


def healer(hands: Hands) -> Round:
    """Look at what is owed, and run it."""
    daemon = Daemon(hands)
    owing = FrameHealing(hands.database, max_tries=MAX_TRIES)

    def go() -> None:
        for frame in owing.owed(2):
            hands.journal.tell("healing", matter=frame.matter_id)
            daemon.run(HEALING_JOB, healing.run_request(frame))

    return go


def sweeper(hands: Hands) -> Round:
    """Sweep."""

    def go() -> None:
        done = sweep_stale_matter_frame_jobs(hands.database, lease_seconds=LEASE_SECONDS)
        if done.failed:
            hands.journal.tell("swept", jobs=done.failed)

    return go


def agent(hands: Hands) -> Round:
    """Finish what the runtime took on, giving signs of life meanwhile."""
    start, open_runs = 0, list[dict[str, Any]]()

    def go() -> None:
        nonlocal start
        lines, start = hands.journal.read(start)
        open_runs.extend(line for line in lines if line["kind"] == "accepted")
        for line in list(open_runs):
            run = {"firm_id": UUID(line["firm"]), "agent_run_id": UUID(line["run"])}
            if not hands.journal.calm and hands.chance.random() < 0.6:
                extend_frame_lease(hands.database, **run)
                continue
            succeeded = hands.journal.calm or hands.chance.random() < 0.8
            complete_frame(hands.database, succeeded=succeeded, **run)
            open_runs.remove(line)

    return go


def collector(hands: Hands) -> Round:
    """Be the services behind the documents' queues: note what came, then delete it."""
    queues = [
        hands.queue("document_ingestion_queue_url"),
        hands.queue("document_registration_queue_url"),
    ]

    def go() -> None:
        for queue in queues:
            for message in queue.receive(20, 0):
                event = json.loads(message.body)["event_id"]
                hands.journal.tell("arrived", event=event, message=message.message_id)
                queue.delete(message.receipt_handle)

    return go


WORK: Final[Mapping[str, Callable[[Hands], Round]]] = {
    **{lane.name: partial(relay, lane) for lane in LANES},
    "framer": framing,
    "healer": healer,
    "sweeper": sweeper,
    "agent": agent,
    "collector": collector,
}
PAUSE: Final[Mapping[str, float]] = {"framer": 0.0, "healer": 0.6, "sweeper": 0.5, "agent": 0.5}
"""The longest pause after a round, in seconds."""


def work(kind: str, folder: str, seed: int) -> None:
    """Do the work of `kind` until killed, or until the one that started it is gone."""
    hands, parent = Hands(Journal(Path(folder)), random.Random(seed)), os.getppid()  # noqa: S311
    go = WORK[kind](hands)
    while os.getppid() == parent:
        try:
            go()
        except Exception as error:  # noqa: BLE001 - told, and judged by the ledger
            hands.journal.tell("error", worker=kind, type=type(error).__name__)
            time.sleep(0.2)
        time.sleep(hands.chance.uniform(0, PAUSE.get(kind, 0.3)))
