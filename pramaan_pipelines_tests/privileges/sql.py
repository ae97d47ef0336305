"""What the two roles may do in a migrated database, grant by grant, and the road that uses it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from pydantic import SecretStr

from pramaan_pipelines.contracts.outcomes import Outcome, SkipReason
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.framer.claims import Claim, Fence, FrameJobClaims, FrameRequest
from pramaan_pipelines.framer.completion import complete_frame, extend_frame_lease
from pramaan_pipelines.framer.healing import FrameHealing
from pramaan_pipelines.framer.sweep import sweep_stale_matter_frame_jobs
from pramaan_pipelines.local.seed import SampleFirm, ensure_firm, new_document
from pramaan_pipelines.messaging.publisher import OutboundMessage, SendResult, SendStatus
from pramaan_pipelines.outbox.lanes import LANES
from pramaan_pipelines.outbox.producers import (
    create_matter,
    insert_document_ingest_event,
    request_registration,
)
from pramaan_pipelines.outbox.redrive import ParkedSelection, redrive_parked
from pramaan_pipelines.outbox.relay import run_relay
from pramaan_pipelines.outbox.replay import look, run_replay
from pramaan_pipelines.outbox.retention import prune_dispatched
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.store import migrate
from pramaan_pipelines.telemetry.provider import Telemetry
from pramaan_pipelines.watch.look import Watch
from pramaan_pipelines_tests.support.aws import settings_for
from pramaan_pipelines_tests.support.world import ENVIRONMENT, World

GRANTS: Final = """
    SELECT r.rolname, n.nspname || '.' || c.relname, a.privilege_type, NULL
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
         aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
    WHERE n.nspname IN ('public', 'ops', 'agents') AND r.rolname ~ '^pramaan_(app|maintenance)$'
      AND a.grantee <> c.relowner
    UNION ALL
    SELECT r.rolname, n.nspname || '.' || c.relname, a.privilege_type, t.attname
    FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid
         JOIN pg_namespace n ON n.oid = c.relnamespace,
         aclexplode(t.attacl) a JOIN pg_roles r ON r.oid = a.grantee
    WHERE n.nspname IN ('public', 'ops', 'agents') AND r.rolname ~ '^pramaan_(app|maintenance)$'
    UNION ALL
    SELECT r.rolname, 'SCHEMA ' || n.nspname, a.privilege_type, NULL
    FROM pg_namespace n, aclexplode(n.nspacl) a JOIN pg_roles r ON r.oid = a.grantee
    WHERE n.nspname IN ('public', 'ops', 'agents') AND r.rolname ~ '^pramaan_(app|maintenance)$'
      AND a.grantee <> n.nspowner
    ORDER BY 1, 2, 3, 4
"""


class SqlGrant(NamedTuple):
    """One right of one role: on a schema, on a table, or on one column of a table."""

    role: str
    on: str
    privilege: str
    column: str | None

    def __str__(self) -> str:
        return f"{self.role}: {self._what} ON {self.on}"

    @property
    def _what(self) -> str:
        return self.privilege if self.column is None else f"{self.privilege} ({self.column})"

    @property
    def revoke(self) -> str:
        """The statement that takes it away."""
        return f"REVOKE {self._what} ON {self.on} FROM {self.role}"

    @property
    def give(self) -> str:
        """The statement that gives it back."""
        return f"GRANT {self._what} ON {self.on} TO {self.role}"


def granted(world: World) -> list[SqlGrant]:
    """Return every grant of the test's database."""
    return [SqlGrant(*row) for row in world.rows(GRANTS)]


@dataclass
class Answering:
    """A destination that answers every message alike: here the database is looked at."""

    status: SendStatus
    destination: str = "nowhere"

    def send(self, messages: Sequence[OutboundMessage], *, deadline: float) -> list[SendResult]:
        del deadline
        return [SendResult(self.status, "told by the test")] * len(messages)

    def verify(self) -> None:
        """It is there."""


def road(world: World, url: SecretStr, maintenance: SecretStr, telemetry: Telemetry) -> None:
    """Do in the database all that producers, relays, framer, buttons and pruning do."""
    assert migrate.current(url) == migrate.head()
    firm, matters, events = _produce(world)
    _relay(world, telemetry)
    _frame(world, firm, matters, events)
    world.god.execute(
        "UPDATE ops.document_ingest_outbox SET dispatched_at = now() - interval '40 days'"
    )
    for dry_run in (True, False):
        pruned = prune_dispatched(maintenance, older_than_days=30, dry_run=dry_run)
        assert pruned.rows["ops.document_ingest_outbox"] >= 2


def _produce(world: World) -> tuple[SampleFirm, list[UUID], list[UUID]]:
    firm = SampleFirm(str(uuid4()), consents=True)
    with world.database.firm(firm.id) as connection:
        assert ensure_firm(connection, firm)
        made = [
            create_matter(connection, firm_id=firm.id, title="A matter", environment=ENVIRONMENT)
            for _ in range(2)
        ]
        document = new_document(connection, firm.id, made[0].matter_id)
        insert_document_ingest_event(connection, firm_id=firm.id, document_id=document)
        assert request_registration(connection, firm_id=firm.id, document_id=document)
        assert request_registration(connection, firm_id=firm.id, document_id=document) is None
    return firm, [each.matter_id for each in made], [each.event_id for each in made]


def _relay(world: World, telemetry: Telemetry) -> None:
    limits = DrainLimits(pause_seconds=0, max_pause_seconds=0)
    for lane in LANES:
        for status, field in (
            (SendStatus.UNAVAILABLE, "failed"),
            (SendStatus.IMPOSSIBLE, "parked"),
            (SendStatus.ACCEPTED, "sent"),
        ):
            run = run_relay(
                lane,
                database=world.database,
                publisher=Answering(status),
                telemetry=telemetry,
                limits=limits,
            )
            assert getattr(run, field) >= 1
            if field == "parked":
                redriven = redrive_parked(
                    world.database, lane, ParkedSelection(), dry_run=False
                ).redriven
                assert redriven == run.parked
        day = world.one("SELECT (now() AT TIME ZONE 'UTC')::date")
        # One that a missing grant has cut off is gone on with here.
        assert look(world.database, lane, day, also_sent=True)[0].sent
        replayed = run_replay(
            lane,
            day,
            database=world.database,
            publisher=Answering(SendStatus.ACCEPTED),
            telemetry=telemetry,
            limits=limits,
            also_sent=True,
        )
        assert replayed.finished


def _frame(world: World, firm: SampleFirm, matters: list[UUID], events: list[UUID]) -> None:
    database, trace = world.database, TraceContext()
    claims, healing = FrameJobClaims(database, lease_seconds=900), FrameHealing(database)
    first, second = (
        FrameRequest(firm.id, matter, event) for matter, event in zip(matters, events, strict=True)
    )
    claim = claims.claim(first, trace)
    assert isinstance(claim, Claim)
    other = FrameRequest(firm.id, first.matter_id, uuid4())
    assert claims.claim(other, trace) is Outcome.CLAIM_LOST
    assert claims.fence(claim) is Fence.HELD
    run = {"firm_id": firm.id, "agent_run_id": claim.agent_run_id}
    assert extend_frame_lease(database, **run)
    assert complete_frame(database, **run, succeeded=False)
    assert claims.record_skip(second, SkipReason.CONSENT_BLOCKED) is Outcome.CONSENT_BLOCKED
    assert healing.request_rebuild(firm.id, second.matter_id)
    assert {frame.matter_id for frame in healing.owed(100)} >= set(matters)
    healed = claims.claim(FrameRequest(firm.id, second.matter_id, None), trace)
    assert isinstance(healed, Claim)
    assert claims.release(healed)
    assert isinstance(claims.claim(FrameRequest(firm.id, second.matter_id, uuid4()), trace), Claim)
    assert sweep_stale_matter_frame_jobs(database, lease_seconds=0).failed == 1
    view = Watch(settings_for("http://127.0.0.1:1"), database).database()
    readings = [*view.lanes.values(), view.unclaimed, view.frame_jobs, view.stale, view.owed]
    readings += [view.given_up, view.consent_blocked, view.schema]
    # A reading keeps its error for the line it stands in; here it is one.
    problems = [str(reading.problem) for reading in readings if reading.problem]
    assert not problems, f"permission denied: {problems}"
