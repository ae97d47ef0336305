"""Each gate alone: what passes it, and how it refuses."""

import json
from uuid import uuid4

import pytest
from sqlalchemy import text

from pramaan_pipelines.contracts.outcomes import EnvelopeRefusedError, RefusalReason
from pramaan_pipelines.framer import gates
from pramaan_pipelines.framer.claims import FrameJobClaims, FrameRequest
from pramaan_pipelines.framer.redelivery import redelivery_delay
from pramaan_pipelines_tests.framer.bench import TRACE, asked, won
from pramaan_pipelines_tests.support.world import TRACEPARENT, World, body, envelope

SECRET = "what a stranger wrote"


def test_hr_21_a_valid_envelope_passes_parse_bare_or_in_eventbridge_s_wrapper() -> None:
    bare = body(uuid4(), uuid4())
    wrapped = json.dumps(
        {
            "version": "0",
            "id": str(uuid4()),
            "detail-type": "matter.created",
            "source": "pramaan",
            "detail": json.loads(bare),
        }
    )
    assert gates.parse(bare) == gates.parse(wrapped)
    assert gates.parse(bare).traceparent == TRACEPARENT


@pytest.mark.parametrize(
    "text_",
    [
        SECRET,
        "[]",
        "",
        body(uuid4(), uuid4(), title=SECRET),
        body(uuid4(), uuid4(), event_id=SECRET),
        body(uuid4(), uuid4(), event_type="matter.deleted"),
        body(uuid4(), uuid4(), schema_version=2),
        body(uuid4(), uuid4(), subject={"type": "matter", "id": SECRET}),
    ],
)
def test_hr_21_what_is_malformed_is_refused_by_place_and_never_by_value(text_: str) -> None:
    with pytest.raises(EnvelopeRefusedError) as refused:
        gates.parse(text_)
    assert refused.value.reason is RefusalReason.MALFORMED
    assert refused.value.places
    assert SECRET not in str(refused.value)


def test_eb_09_another_environment_s_envelope_is_refused() -> None:
    ours = envelope(uuid4(), uuid4(), environment="staging")
    gates.check_environment(ours, "staging")
    for other in ("production", "stagin", "staging2", ""):
        with pytest.raises(EnvelopeRefusedError) as refused:
            gates.check_environment(ours, other)
        assert refused.value.reason is RefusalReason.WRONG_ENVIRONMENT
        assert refused.value.places == ("environment",)


def test_eb_07_an_event_is_handled_once_it_has_a_run_row_in_its_own_firm(
    world: World, claims: FrameJobClaims
) -> None:
    event = uuid4()
    request = FrameRequest(world.firm_a, world.matter(world.firm_a), event)
    with world.database.firm(world.firm_a) as connection:
        assert not gates.is_handled(connection, firm_id=world.firm_a, event_id=event)
    won(claims, request)
    with world.database.firm(world.firm_a) as connection:
        assert gates.is_handled(connection, firm_id=world.firm_a, event_id=event)
        assert not gates.is_handled(connection, firm_id=world.firm_a, event_id=uuid4())
    # Another firm's event of the same id is another event.
    with world.database.firm(world.firm_b) as connection:
        assert not gates.is_handled(connection, firm_id=world.firm_b, event_id=event)


def test_eb_17_a_matter_is_coherent_under_its_own_firm_only(world: World) -> None:
    matter = world.matter(world.firm_a)
    with world.database.firm(world.firm_a) as connection:
        gates.check_subject(connection, firm_id=world.firm_a, matter_id=matter)
    with (
        world.database.firm(world.firm_b) as connection,
        pytest.raises(EnvelopeRefusedError) as refused,
    ):
        gates.check_subject(connection, firm_id=world.firm_b, matter_id=matter)
    assert refused.value.reason is RefusalReason.SUBJECT_NOT_VISIBLE
    assert str(matter) not in str(refused.value)


def test_eb_06_a_matter_that_is_not_there_is_refused(world: World) -> None:
    with (
        world.database.firm(world.firm_a) as connection,
        pytest.raises(EnvelopeRefusedError) as refused,
    ):
        gates.check_subject(connection, firm_id=world.firm_a, matter_id=uuid4())
    assert refused.value.reason is RefusalReason.SUBJECT_NOT_VISIBLE


def test_eb_17_a_forged_envelope_leaves_no_job_row_and_no_run_row(
    world: World, claims: FrameJobClaims
) -> None:
    """Firm B names firm A's matter: even a claim that skipped the gate makes nothing."""
    matter = world.matter(world.firm_a)
    with pytest.raises(EnvelopeRefusedError) as refused:
        claims.claim(asked(world, matter, world.firm_b), TRACE)
    assert refused.value.reason is RefusalReason.SUBJECT_NOT_VISIBLE
    assert world.one("SELECT count(*) FROM ops.matter_frame_jobs") == 0
    assert world.one("SELECT count(*) FROM agents.agent_run") == 0


def test_eb_06_a_session_of_firm_b_reads_nothing_of_firm_a_s_rail(
    world: World, claims: FrameJobClaims
) -> None:
    world.created_matter(world.firm_a)
    won(claims, asked(world))
    for table in ("ops.matter_frame_jobs", "agents.agent_run", "ops.domain_event_outbox"):
        count = text(f"SELECT count(*) FROM {table}")  # noqa: S608
        with world.database.firm(world.firm_b) as connection:
            assert connection.scalar(count) == 0
        with world.database.firm(world.firm_a) as connection:
            assert connection.scalar(count) == 1


def test_eb_11_consent_is_granted_only_by_a_row_that_says_so(world: World) -> None:
    def consent() -> bool:
        with world.database.firm(world.firm_a) as connection:
            return gates.load_egress_consent(connection, firm_id=world.firm_a)

    assert consent()
    world.set_consent(world.firm_a, granted=False)
    assert not consent()
    world.set_consent(world.firm_a, granted=None)
    assert not consent()
    world.set_consent(world.firm_a, granted=True)
    assert consent()


def test_eb_11_another_firm_s_consent_is_nobody_s(world: World) -> None:
    with world.database.firm(world.firm_without_consent) as connection:
        assert not gates.load_egress_consent(connection, firm_id=world.firm_without_consent)


def test_a_refused_message_is_handed_back_at_once() -> None:
    """So that it reaches the dead-letter queue in minutes."""
    assert [redelivery_delay(receive_count=n, refused=True) for n in (1, 2, 3)] == [0, 0, 0]


def test_a_failed_message_waits_longer_each_time_up_to_a_bound() -> None:
    waits = [redelivery_delay(receive_count=n, refused=False) for n in range(1, 8)]
    assert waits == [10, 60, 360, 600, 600, 600, 600]
    # Whatever the queue says: never negative, and never more than SQS allows (12 hours).
    assert redelivery_delay(receive_count=0, refused=False) == 10
    assert redelivery_delay(receive_count=10_000, refused=False) == 600
