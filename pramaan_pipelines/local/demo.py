"""`pramaan demo`: a fixed set of events through the real daemon, and what became of each.

Promises: a stack of its own, made anew and removed at the end; exit code 0 only if every event
ended as it should, with its trace.
Never: touches the stack of `pramaan dev`, or anything that the environment names.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from sqlalchemy import text

from pramaan_pipelines.contracts.outcomes import Outcome
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.framer.gates import is_handled
from pramaan_pipelines.local.children import dagster
from pramaan_pipelines.local.demo_cases import DELIVERED, Case, Pusher
from pramaan_pipelines.local.embedded import make_ready
from pramaan_pipelines.local.home import dagster_home
from pramaan_pipelines.local.stack import down
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.orchestration.found_runs import (
    FoundRelay,
    FoundRun,
    framer_runs,
    instance_at,
    relay_runs,
)
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.export import flush
from pramaan_pipelines.telemetry.provider import Telemetry

LIMIT_SECONDS: Final = 170.0
DELIVERIES: Final = 3
"""maxReceiveCount of the template: a refused message is on the dead-letter queue after these."""

JOBS_OF_MATTER: Final = text("SELECT count(*) FROM ops.matter_frame_jobs WHERE matter_id = :id")
DISPATCHED: Final = text(
    "SELECT extract(epoch FROM dispatched_at) FROM ops.document_ingest_outbox WHERE event_id = :id"
)


def demo(state: Path, *, as_json: bool) -> int:
    """Run the demo in the folder `state`; returns the exit code.

    Args:
        state: a folder of the demo's own; wiped before and after.
        as_json: print one JSON document instead of a table.
    """
    started = monotonic()
    progress = sys.stderr if as_json else sys.stdout

    def say(line: str) -> None:
        progress.write(f"[{monotonic() - started:5.1f} s] {line}\n")
        progress.flush()

    # An end by SIGTERM, too, ends what was started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with ExitStack() as ending:
        say("starting Postgres and the AWS stand-in, migrating, provisioning")
        _remove(state)
        ending.callback(_remove, state)
        make_ready(state, None, {}, visibility_seconds=60)
        settings = Settings.load()
        database = Database.connect(settings.database_url)
        ending.callback(database.close)
        tracer = Telemetry.current(settings.pramaan_environment).tracer
        ending.callback(flush)
        pusher = Pusher(settings, database, tracer)
        cases = [*pusher.documents(), *pusher.matters()]
        first = next(case for case in cases if case.expected == Outcome.STARTED)
        cases += pusher.hostile(first)
        say(f"pushed {len(cases)} events; starting Dagster's daemon")
        # Made once, here: two processes that make the same storage at once trip over each other.
        with instance_at(dagster_home(state).folder):
            pass
        ending.enter_context(_daemon(state))
        watch = _Watch(state, settings, database, cases)
        while any(case.became is None for case in cases) and monotonic() < started + LIMIT_SECONDS:
            sleep(1)
            for case in watch.look():
                say(f"{case.name}: {case.became}")
                if case is first:
                    cases.append(pusher.duplicate_of(first))
        watch.check()
    _print(cases, as_json=as_json)
    return 0 if all(case.is_good for case in cases) else 1


def _remove(state: Path) -> None:
    down(state, wipe=True)
    shutil.rmtree(state, ignore_errors=True)


@contextmanager
def _daemon(state: Path) -> Iterator[None]:
    home = dagster_home(state)
    with (
        (state / "dagster.log").open("wb") as output,
        dagster(
            *("run", "-w", str(home.workspace)),
            module="dagster._daemon",
            environment={**os.environ, "DAGSTER_HOME": str(home.folder)},
            folder=home.folder,
            output=output,
        ),
    ):
        yield


class _Watch:
    """Looks where an operator would: at the queues, the runs, and the rows."""

    def __init__(
        self, state: Path, settings: Settings, database: Database, cases: list[Case]
    ) -> None:
        self._home = state / "dagster"
        self._database = database
        self._cases = cases
        sqs = client("sqs", settings)
        self._document_queues = [
            QueueConsumer(sqs, settings.require(name))
            for name in ("document_ingestion_queue_url", "document_registration_queue_url")
        ]
        self._dead_letters = QueueConsumer.from_settings(settings).dead_letters()
        self._dead: set[str] = set()

    def look(self) -> list[Case]:
        """Return the cases that have ended since the last look."""
        before = {id(case) for case in self._cases if case.became is not None}
        self._take_documents()
        self._dead |= {letter.message_id for letter in self._dead_letters.receive(10, 0)}
        with instance_at(self._home) as instance:
            runs = framer_runs(instance)
        for case in self._cases:
            if case.became is None and case.expected != DELIVERED:
                self._judge(case, runs)
        return [c for c in self._cases if c.became is not None and id(c) not in before]

    def check(self) -> None:
        """Look past the outcomes: at the rows that should and should not be there."""
        with instance_at(self._home) as instance:
            relays = relay_runs(instance)
        for case in self._cases:
            if case.firm_id is None or case.event_id is None or case.became is None:
                continue
            if case.lane is not None:
                self._find_relay(case, relays)
            with self._database.firm(case.firm_id) as connection:
                has_run = is_handled(connection, firm_id=case.firm_id, event_id=case.event_id)
                jobs = connection.scalar(JOBS_OF_MATTER, {"id": case.matter_id})
            if has_run is not (case.expected == Outcome.STARTED):
                case.faults += ("an agent run is missing or should not be there",)
            if case.matter_id is None and jobs:
                case.faults += ("a frame job should not be there",)

    def _find_relay(self, case: Case, relays: Iterable[FoundRelay]) -> None:
        """Name the relay run in whose time the row was marked as dispatched."""
        with self._database.staff() as connection:
            at = connection.scalar(DISPATCHED, {"id": case.event_id})
        if at is None:
            case.faults += ("the row is not marked as dispatched",)
            return
        case.run_ids = tuple(
            run.run_id
            for run in relays
            if run.lane == case.lane and run.began <= float(at) <= run.ended
        )

    def _take_documents(self) -> None:
        waiting = {str(c.event_id): c for c in self._cases if c.expected == DELIVERED}
        for queue in self._document_queues:
            for message in queue.receive(10, 0):
                body = json.loads(message.body)
                case = waiting[body["event_id"]]
                if case.became is not None:
                    case.faults += ("delivered twice",)
                case.message_id, case.became = message.message_id, DELIVERED
                trace = TraceContext.of(body["traceparent"], body["tracestate"])
                self._compare_trace(case, trace.trace_id)
                queue.delete(message.receipt_handle)

    def _judge(self, case: Case, runs: Iterable[FoundRun]) -> None:
        mine = [
            run
            for run in runs
            if (case.message_id or run.message_id) == run.message_id
            and (case.message_id is not None or run.event_id == str(case.event_id))
        ]
        if not mine:
            return
        case.run_ids = tuple(run.run_id for run in mine)
        newest = mine[0]
        if newest.outcome == Outcome.REFUSED:
            if newest.message_id not in self._dead:
                return
            case.became = f"{newest.outcome}: {newest.reason}"
            if len(mine) != DELIVERIES:
                case.faults += (f"{len(mine)} deliveries instead of {DELIVERIES}",)
        elif newest.status == "SUCCESS" and newest.outcome is not None:
            case.became = newest.outcome
        else:
            return
        case.message_id = newest.message_id
        self._compare_trace(case, newest.trace_id)

    def _compare_trace(self, case: Case, arrived: str | None) -> None:
        if case.trace_id is not None and arrived != case.trace_id:
            case.faults += ("the trace was lost",)


def _print(cases: list[Case], *, as_json: bool) -> None:
    if as_json:
        rows = [{**asdict(case), "good": case.is_good} for case in cases]
        sys.stdout.write(json.dumps(rows, default=str, indent=2) + "\n")
        return
    header = ("", "event", "should be", "became", "row (event_id)", "message", "runs", "trace")
    table = [
        (
            "ok" if case.is_good else "NOT OK",
            case.name,
            case.expected,
            "; ".join([case.became or "no end in time", *case.faults]),
            _short(case.event_id),
            _short(case.message_id),
            " ".join(run_id[:8] for run_id in case.run_ids) or "-",
            _short(case.trace_id),
        )
        for case in cases
    ]
    widths = [max(len(row[i]) for row in (header, *table)) for i in range(len(header))]
    for row in (header, *table):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")
    good = sum(case.is_good for case in cases)
    sys.stdout.write(f"{good} of {len(cases)} events ended as they should.\n")
    if any(case.became is None for case in cases):
        sys.stdout.write(
            f"Not all had ended after {LIMIT_SECONDS:.0f} s. On a machine that is busy with other "
            "work, try again; otherwise look at what the first of them waits for in `make dev`.\n"
        )


def _short(value: object) -> str:
    return "-" if value is None else str(value)[:8]
