"""One real database for a machine's whole life, and everything in it as plain values.

An example begins with empty tables and firms of its own, which is cheaper than a database each.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from hypothesis.stateful import RuleBasedStateMachine
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry, span_limits
from pramaan_pipelines_tests.framer.bench import LEASE_SECONDS
from pramaan_pipelines_tests.support.world import World

EMPTY = """
    DELETE FROM agents.agent_run; DELETE FROM ops.matter_frame_jobs;
    DELETE FROM ops.document_ingest_outbox; DELETE FROM ops.domain_event_outbox;
    DELETE FROM matters; DELETE FROM documents;
    DELETE FROM firm_inference_egress_consents; DELETE FROM firms
"""

ROWS = """
    SELECT event_id, id, dispatched_at IS NOT NULL, parked_at IS NOT NULL, attempts,
           next_attempt_at <= clock_timestamp(), event_type
    FROM ops.{table}
"""
ALL_ROWS = " UNION ALL ".join(
    ROWS.format(table=table) for table in ("document_ingest_outbox", "domain_event_outbox")
)

ALL_JOBS = f"""
    SELECT matter_id, firm_id, run_status, claimed_generation, requested_generation,
           rebuild_needed, pending_event_id, failed_tries,
           coalesce(claimed_at < now() - interval '{LEASE_SECONDS} seconds', false),
           last_skip_reason IS NOT NULL
    FROM ops.matter_frame_jobs
"""  # noqa: S608 - a number of ours

ALL_RUNS = """
    SELECT id, firm_id, matter_id, claimed_generation, trigger_event_id, status,
           finished_at IS NOT NULL
    FROM agents.agent_run
"""


class RealRow(NamedTuple):
    """An outbox row as it stands."""

    event: UUID
    number: int
    dispatched: bool
    parked: bool
    attempts: int
    due: bool
    event_type: str


class RealJob(NamedTuple):
    """A frame job as it stands."""

    matter: UUID
    firm: UUID
    status: str
    generation: int
    requested: int
    rebuild: bool
    pending: UUID | None
    tries: int
    lease_over: bool
    skipped: bool


class RealAgentRun(NamedTuple):
    """An agent run as it stands."""

    id: UUID
    firm: UUID
    matter: UUID
    generation: int
    event: UUID | None
    status: str
    finished: bool


@dataclass
class Bench:
    """What a machine works on.

    Attributes:
        database: as the service role.
        god: a superuser's connection, past row level security.
        telemetry: goes nowhere.
    """

    database: Database
    god: psycopg.Connection[tuple[Any, ...]]
    telemetry: Telemetry

    @classmethod
    def of(cls, database: Database, god: psycopg.Connection[tuple[Any, ...]]) -> "Bench":
        """Make it."""
        tracer = TracerProvider(span_limits=span_limits()).get_tracer("test")
        return cls(database, god, Telemetry(tracer, MeterProvider().get_meter("test"), "test"))

    def begin(self) -> World:
        """Empty the tables, and make an example's firms."""
        self.god.execute(EMPTY)
        return World.build(self.database, self.god)

    def rows(self) -> list[RealRow]:
        """Read both outboxes."""
        return [RealRow(*row) for row in self.god.execute(ALL_ROWS)]

    def jobs(self) -> list[RealJob]:
        """Read the frame jobs."""
        return [RealJob(*row) for row in self.god.execute(ALL_JOBS)]

    def runs(self) -> list[RealAgentRun]:
        """Read the agent runs."""
        return [RealAgentRun(*row) for row in self.god.execute(ALL_RUNS)]


class Machine(RuleBasedStateMachine):
    """One example's life on the bench."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.bench = bench
        self.world = bench.begin()
