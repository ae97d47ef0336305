"""The outbox's rules: produce, drain with every kind of answer and end, redrive; its invariants."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from enum import StrEnum
from typing import Final, NoReturn
from uuid import UUID, uuid4

from hypothesis.stateful import invariant, precondition, rule
from hypothesis.strategies import integers, lists, sampled_from
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from pramaan_pipelines.messaging.publisher import OutboundMessage, SendResult
from pramaan_pipelines.outbox.drain import DrainResult
from pramaan_pipelines.outbox.lanes import (
    DOCUMENT_INGEST,
    DOCUMENT_REGISTRATION,
    DOMAIN_EVENT,
    LANES,
    Lane,
)
from pramaan_pipelines.outbox.producers import (
    create_matter,
    insert_document_ingest_event,
    request_registration,
)
from pramaan_pipelines.outbox.redrive import ParkedSelection, redrive_parked
from pramaan_pipelines_tests.outbox.bench import RELAYS
from pramaan_pipelines_tests.properties.bench import Bench, Machine
from pramaan_pipelines_tests.properties.outbox_model import (
    LIMITS,
    Answer,
    OutboxModel,
    Place,
    Row,
)
from pramaan_pipelines_tests.support.world import ENVIRONMENT

INSERT_DOCUMENT: Final = text("INSERT INTO documents (id, firm_id) VALUES (:id, :firm)")

NAMED: Final = {lane.name: lane for lane in LANES}
NAME: Final = sampled_from(sorted(NAMED))

CUT: Final = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND state = 'idle in transaction'
      AND query LIKE '%SKIP LOCKED%'
"""


class End(StrEnum):
    """How a drain ends."""

    COMMIT = "commit"
    DIES_BEFORE = "dies before the destination has anything"
    DIES_AFTER = "dies between the acceptance and the commit"
    CUT = "its connection is cut between the acceptance and the commit"


class Meanwhile(StrEnum):
    """What happens while a drain waits for its destination."""

    NOTHING = "nothing"
    DRAIN = "another drain of the lane"
    REDRIVE = "a redrive"
    PRODUCE = "a new row"


class KilledError(BaseException):
    """The process is gone: nothing below may catch it and go on."""


class Scripted:
    """A publisher that answers by a script, and sees to it that it is asked rightly."""

    destination = "scripted"

    def __init__(
        self, machine: "OutboxRules", lane: Lane, script: Sequence[Answer], end: End
    ) -> None:
        self.lane = lane
        self.events: list[UUID] = machine.outbox.next_batch(lane)
        self.answers = [script[n % len(script)] for n in range(len(self.events))]
        self.end = end
        self.took = False
        self._machine = machine
        self.meanwhile: Callable[[], object] = lambda: None

    def verify(self) -> None:
        """Be there."""

    def send(self, messages: Sequence[OutboundMessage], *, deadline: float) -> list[SendResult]:
        """Take what the script takes."""
        del deadline
        assert [UUID(message.event_id) for message in messages] == self.events, "wrong rows"
        assert {message.event_type for message in messages} == {str(self.lane.event_type)}
        self._machine.outbox.held |= set(self.events)
        self.meanwhile()
        if self.end is End.DIES_BEFORE:
            raise KilledError
        self._machine.outbox.take(self.events, self.answers)
        self.took = True
        for event, answer in zip(self.events, self.answers, strict=True):
            if answer.taken:
                self._machine.arrived(self.lane, event)
        if self.end is End.CUT:
            assert self._machine.bench.god.execute(CUT).fetchall() == [(True,)]
        if self.end is End.DIES_AFTER:
            raise KilledError
        return [answer.result for answer in self.answers]


class OutboxRules(Machine):
    """Producers, relays and their faults, on every lane."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.outbox = OutboxModel()
        self._made: dict[UUID, UUID] = {}
        self._open = ExitStack()
        self._open_event: UUID | None = None

    def arrived(self, lane: Lane, event: UUID) -> None:
        """Be told that the destination took an event."""

    def created(self, matter: UUID, event: UUID) -> None:
        """Be told of a new matter and of the event that announces it."""

    # Rules.

    @rule(lane=NAME, count=integers(1, 4))
    def produce(self, lane: str, count: int) -> None:
        with self.bench.database.firm(self.world.firm_a) as connection:
            events = [self._write(connection, NAMED[lane]) for _ in range(count)]
        for event in events:
            self.learn(NAMED[lane], event)

    @rule(lane=NAME)
    def produce_and_roll_back(self, lane: str) -> None:
        try:
            with self.bench.database.firm(self.world.firm_a) as connection:
                self._write(connection, NAMED[lane])
                self._die()
        except KilledError:
            pass

    @precondition(lambda self: self._open_event is None)
    @rule()
    def produce_slowly(self) -> None:
        """Draw a row's id now, and commit it whenever."""
        firm = self.bench.database.firm(self.world.firm_a)
        connection = self._open.enter_context(firm)
        self._open_event = self._write(connection, DOCUMENT_INGEST)

    @precondition(lambda self: self._open_event is not None)
    @rule()
    def commit_late(self) -> None:
        self._open.close()
        assert self._open_event is not None
        self.learn(DOCUMENT_INGEST, self._open_event)
        self._open_event = None

    @precondition(lambda self: self.outbox.pending())
    @rule(
        lane=NAME,
        script=lists(sampled_from(Answer), min_size=1, max_size=3),
        end=sampled_from(End),
        meanwhile=sampled_from(Meanwhile),
    )
    def drain(self, lane: str, script: list[Answer], end: End, meanwhile: Meanwhile) -> None:
        publisher = Scripted(self, NAMED[lane], script, end)
        publisher.meanwhile = {
            Meanwhile.NOTHING: lambda: None,
            Meanwhile.DRAIN: lambda: self._drain(
                Scripted(self, NAMED[lane], script[::-1], End.COMMIT)
            ),
            Meanwhile.REDRIVE: lambda: self.redrive(lane),
            Meanwhile.PRODUCE: lambda: self.produce(lane, 1),
        }[meanwhile]
        self._drain(publisher)

    @precondition(lambda self: self.outbox.parked())
    @rule(lane=NAME)
    def redrive(self, lane: str) -> None:
        asked = (self.bench.database, NAMED[lane], ParkedSelection())
        shown = redrive_parked(*asked, dry_run=True)
        done = redrive_parked(*asked, dry_run=False)
        parked = self.outbox.redrive(NAMED[lane])
        assert (shown.selected, shown.redriven) == (parked, 0)
        assert (done.selected, done.redriven) == (parked, parked)

    @precondition(lambda self: not all(row.due for row in self.outbox.rows.values()))
    @rule()
    def let_pauses_end(self) -> None:
        for outbox in {lane.outbox.table for lane in LANES}:
            self.bench.god.execute(f"UPDATE {outbox} SET next_attempt_at = now()")  # noqa: S608
        self.outbox.all_due()

    # Invariants.

    @invariant()
    def rows_stand_where_the_model_has_them(self) -> None:
        found = self.bench.rows()
        assert {row.event for row in found} == set(self.outbox.rows), "a row lost, or not ours"
        for real in found:
            row = self.outbox.rows[real.event]
            assert not (real.dispatched and real.parked), "in two places"
            assert not real.dispatched or row.taken, "marked, and nobody has it"
            assert row.taken <= row.windows + 1, "sent again without need"
            assert real == (
                real.event,
                row.number,
                row.place is Place.DISPATCHED,
                row.place is Place.PARKED,
                row.attempts,
                row.due,
                row.lane.event_type,
            )

    # To the end.

    def calm_outbox(self) -> None:
        """Let everything be sent by a destination that takes it; nothing may be left pending."""
        if self._open_event is not None:
            self.commit_late()
        self.let_pauses_end()
        for lane in LANES:
            while self.outbox.next_batch(lane):  # every drain takes some, or fails
                self._drain(Scripted(self, lane, [Answer.ACCEPTED], End.COMMIT))
        assert not self.outbox.pending()
        self.rows_stand_where_the_model_has_them()

    def close(self) -> None:
        """Leave no transaction behind."""
        self._open.close()

    # Parts.

    def _write(self, connection: Connection, lane: Lane) -> UUID:
        firm = self.world.firm_a
        if lane is DOMAIN_EVENT:
            made = create_matter(
                connection, firm_id=firm, title="A matter", environment=ENVIRONMENT
            )
            self._made[made.event_id] = made.matter_id
            return made.event_id
        document = uuid4()
        connection.execute(INSERT_DOCUMENT, {"id": document, "firm": firm})
        if lane is DOCUMENT_REGISTRATION:
            event = request_registration(connection, firm_id=firm, document_id=document)
            again = request_registration(connection, firm_id=firm, document_id=document)
            assert event is not None
            assert again is None, "two batons for one document"
            return event
        return insert_document_ingest_event(connection, firm_id=firm, document_id=document)

    def _die(self) -> NoReturn:
        raise KilledError

    def learn(self, lane: Lane, event: UUID) -> None:
        """Let the model know a row that was committed."""
        number = self.world.one(
            f"SELECT id FROM {lane.outbox.table} WHERE event_id = %s",  # noqa: S608
            event,
        )
        self.outbox.rows[event] = Row(lane, number)
        if event in self._made:
            self.created(self._made[event], event)

    def _drain(self, publisher: Scripted) -> None:
        batch, answers = publisher.events, publisher.answers
        database, telemetry = self.bench.database, self.bench.telemetry
        try:
            result = RELAYS[publisher.lane](database, publisher, telemetry, LIMITS)
        except (KilledError, OperationalError):
            assert publisher.end is not End.COMMIT
            if publisher.took:
                self.outbox.roll_back(batch, answers)
        else:
            assert publisher.end is End.COMMIT or not batch
            self.outbox.commit(batch, answers)
            self._check_told(result, publisher)
        finally:
            self.outbox.held -= set(batch)

    def _check_told(self, result: DrainResult, publisher: Scripted) -> None:
        sent = publisher.answers.count(Answer.ACCEPTED)
        parked = [e for e in publisher.events if self.outbox.rows[e].place is Place.PARKED]
        unsent = len(publisher.events) - sent
        assert (result.selected, result.sent) == (len(publisher.events), sent)
        assert (result.parked, result.failed) == (len(parked), unsent - len(parked))
        out = {Answer.UNAVAILABLE, Answer.LOST} & set(publisher.answers)
        assert (result.outage is not None) == bool(out)
