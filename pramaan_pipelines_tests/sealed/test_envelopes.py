"""HR-21, EB-17, EB-06: no forged or hostile envelope of any kind leaves a row or an invoke."""

import json
import re
from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from pramaan_pipelines.contracts.envelopes import (
    _REFUSED_WHOLE,
    MatterCreated,
    parse_matter_created,
    pointer_body,
)
from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError, RefusalReason
from pramaan_pipelines.framer import gates
from pramaan_pipelines.framer.claims import FrameJobClaims, FrameRequest
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import APP
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.model.real_run import RealRun, Tools
from pramaan_pipelines_tests.sealed.envelopes import KINDS, Ids, good, with_traces, wrapped
from pramaan_pipelines_tests.support.world import ENVIRONMENT, World

BRIEF = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=20,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
"""The same envelopes each time: 20 of each kind, so some hundreds."""

LONG = settings(
    BRIEF,
    derandomize=False,
    max_examples=250,
    phases=[Phase.generate, Phase.shrink],
    print_blob=True,
)
"""Others each time, some thousands."""


class Consumer:
    """The consumer's core, gate by gate, on a real database, with an invoke that is counted."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ids = Ids(
            world.firm_a, world.matter(world.firm_a), world.firm_b, world.matter(world.firm_b)
        )
        self.invokes: list[UUID] = []
        claims = FrameJobClaims(world.database, lease_seconds=900)
        self._tools = Tools(world.database, claims, self._invoke)

    def _invoke(self, agent_run_id: UUID, _: int) -> bool:
        self.invokes.append(agent_run_id)
        return False

    def take(self, body: str) -> tuple[str, RefusalReason | None, tuple[str, ...]]:
        """Return the gate that ended it, why, and the places that the refusal names."""
        gate = "parse"
        try:
            envelope = gates.parse(body)
            gate = "environment"
            gates.check_environment(envelope, ENVIRONMENT)
        except EnvelopeRefusedError as refused:
            return gate, refused.reason, refused.places
        return self._from_dedupe(envelope)

    def _from_dedupe(
        self, envelope: MatterCreated
    ) -> tuple[str, RefusalReason | None, tuple[str, ...]]:
        request = FrameRequest(envelope.firm_id, envelope.matter_id, envelope.event_id)
        run = RealRun(0, 0, request, "dedupe", stops_at_coherence=True)
        gate, told = "dedupe", ""
        while run.at not in {None, "acknowledge"}:
            gate = str(run.at)
            told = run.pass_gate(self._tools)
        if told == "refused":
            return gate, RefusalReason.SUBJECT_NOT_VISIBLE, ("firm_id", "subject.id")
        return gate, None, ()

    def left(self) -> tuple[int, int, int]:
        """Return the job rows, the run rows and the invokes so far."""
        return (
            self.world.one("SELECT count(*) FROM ops.matter_frame_jobs"),
            self.world.one("SELECT count(*) FROM agents.agent_run"),
            len(self.invokes),
        )


@pytest.fixture(scope="module")
def consumer(server: EmbeddedPostgres, template: str) -> Iterator[Consumer]:
    """One for all kinds: none of them may leave anything."""
    name = "hostile_envelopes"
    with psycopg.connect(server.admin_url(), autocommit=True) as god:
        god.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    database = Database.connect(SecretStr(server.url(APP, name)))
    with psycopg.connect(server.admin_url(name), autocommit=True) as god:
        yield Consumer(World.build(database, god))
    database.close()
    with psycopg.connect(server.admin_url(), autocommit=True) as god:
        god.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def each_is_refused(consumer: Consumer, title: str, bounds: settings) -> int:
    """Try envelopes of one kind; return how many were made."""
    kind, made = KINDS[title], 0
    before = consumer.left()

    @bounds
    @given(kind.make(consumer.ids))
    def refused(body: str) -> None:
        nonlocal made
        made += 1
        gate, reason, places = consumer.take(body)
        assert (gate, reason) == (kind.gate, kind.reason)
        assert places
        for place in places:
            assert re.fullmatch(kind.places, place), place
        if kind.gate == "parse":
            stored = pointer_body(body)
            stored.encode()
            assert len(stored) < 2_000, "what is stored of it does not grow with it"
            with pytest.raises(EnvelopeRefusedError) as again:
                parse_matter_created(stored)
            assert again.value.reason is kind.reason

    refused()
    assert consumer.left() == before, "it left a row or an invoke"
    return made


@pytest.mark.parametrize("title", KINDS)
def test_each_kind_is_made_and_refused_for_its_own_reason(consumer: Consumer, title: str) -> None:
    assert each_is_refused(consumer, title, BRIEF) >= 3


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("title", KINDS)
def test_many_more_of_each_kind_are_refused(consumer: Consumer, title: str) -> None:
    assert each_is_refused(consumer, title, LONG) >= 3


def test_the_kinds_cover_every_reason_and_every_place_there_is(consumer: Consumer) -> None:
    """Counted by kind: what the code can refuse, some kind makes it refuse."""
    reasons: set[RefusalReason] = set()
    places: set[str] = set()

    @BRIEF
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        for kind in KINDS.values():
            _, reason, found = consumer.take(data.draw(kind.make(consumer.ids)))
            assert reason is not None
            reasons.add(reason)
            places.update(found)

    collect()
    assert reasons == set(RefusalReason)
    assert set(_REFUSED_WHOLE.values()) <= places
    fields = {place.split(" (")[0].removeprefix("detail.") for place in places}
    traceless = set(MatterCreated.model_fields) - {"traceparent", "tracestate"}
    assert (
        traceless | {"subject.id", "subject.type", "detail-type", "detail", "<unknown>"} <= fields
    )


def traces_are_taken(consumer: Consumer, bounds: settings) -> None:
    parents = set()

    @bounds
    @given(with_traces(consumer.ids))
    def taken(body: str) -> None:
        parsed = gates.parse(body)
        parents.add(parsed.trace.traceparent is None)
        assert parse_matter_created(pointer_body(body)) == parsed
        gate, reason, _ = consumer.take(body)
        # The first frames the matter, and so does each after it: the job is idle again.
        assert (gate, reason) in {("release", None), ("dedupe", None)}

    taken()
    assert parents == {True, False}, "traces that are none, and traces that are"


def test_a_trace_context_of_any_shape_is_no_refusal(consumer: Consumer) -> None:
    """EB-04. This is what shows, too, that the consumer of these tests can start a run."""
    jobs, runs, invokes = consumer.left()
    traces_are_taken(consumer, BRIEF)
    assert consumer.left() > (jobs, runs, invokes)
    assert consumer.left()[1] - runs == consumer.left()[2] - invokes > 0


@pytest.mark.long
def test_many_more_trace_contexts_are_no_refusal(consumer: Consumer) -> None:
    traces_are_taken(consumer, LONG)


def test_what_a_wrapper_says_of_itself_changes_nothing(consumer: Consumer) -> None:
    """Beside its detail-type: no field of the wrapper stands in for one of the envelope's."""
    lie = wrapped(
        good(consumer.ids),
        firm_id=str(consumer.ids.firm_b),
        subject={"type": "matter", "id": str(consumer.ids.matter_b)},
        account="another",
    )
    parsed = gates.parse(json.dumps(lie))
    assert (parsed.firm_id, parsed.matter_id) == (consumer.ids.firm_a, consumer.ids.matter_a)
