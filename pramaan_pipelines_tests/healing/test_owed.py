"""What the look finds owed, for whom, and what it leaves to a person."""

from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from pramaan_pipelines.framer import healing
from pramaan_pipelines.framer.claims import FrameJobClaims
from pramaan_pipelines.framer.healing import FrameHealing
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.framer.bench import asked, job, remove_matter, won
from pramaan_pipelines_tests.healing.bench import BOUND, failed, healing_of
from pramaan_pipelines_tests.support.world import World

MANY = 400


def many_owed(world: World, firm: UUID, count: int = MANY) -> None:
    """Let `count` matters of `firm` be owed, all for longer than any other's."""
    world.god.execute(
        """
        WITH made AS (
            INSERT INTO matters (id, firm_id, title)
            SELECT gen_random_uuid(), %s, 'A matter' FROM generate_series(1, %s)
            RETURNING id, firm_id)
        INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, rebuild_needed, updated_at)
        SELECT firm_id, id, true, now() - interval '1 day' FROM made
        """,
        [firm, count],
    )


def owed_to(owing: FrameHealing, limit: int = 6) -> list[UUID]:
    return [frame.matter_id for frame in owing.owed(limit)]


def test_nothing_is_owed_at_first(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    assert owing.owed(6) == []
    assert not owing.given_up().count
    request = asked(world)
    claim = won(claims, request)
    assert owing.owed(6) == []
    claims.release(claim)
    assert owing.owed(6) == []
    assert not owing.given_up().count


def test_a_firm_with_very_many_owed_frames_does_not_starve_another(
    world: World, owing: FrameHealing
) -> None:
    """Either could fill each look of six; in forty both come up but for one case in 10^12."""
    many_owed(world, world.firm_a)
    many_owed(world, world.firm_b)
    looks = [owing.owed(6) for _ in range(40)]
    assert {len(look) for look in looks} == {6}
    assert {frame.firm_id for look in looks for frame in look} == {world.firm_a, world.firm_b}


def test_frames_whose_runs_always_die_before_the_claim_do_not_starve_their_own_firm(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    """Nothing counts such a death, so the same ones are the oldest at every look."""
    many_owed(world, world.firm_a, 10)
    young = failed(world, claims)
    assert any(young in owed_to(owing) for _ in range(60))


def test_a_firm_without_consent_holds_up_nobody_and_is_owed_again_when_it_consents(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    many_owed(world, world.firm_without_consent)
    matter = failed(world, claims)
    assert owed_to(owing) == [matter]
    world.set_consent(world.firm_without_consent, granted=None)
    assert owed_to(owing) == [matter]
    world.set_consent(world.firm_without_consent, granted=True)
    assert len(owing.owed(50)) == 50


def test_a_look_is_bounded_and_names_no_frame_twice(world: World, owing: FrameHealing) -> None:
    many_owed(world, world.firm_a)
    many_owed(world, world.firm_b)
    for limit in (0, 1, 6, 250):
        found = owing.owed(limit)
        assert len(found) == len(set(found)) == limit


def test_a_matter_that_is_gone_is_owed_nothing(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    """Its run would be refused at coherence at every look, for ever."""
    gone, here = failed(world, claims), failed(world, claims)
    remove_matter(world.god, gone)
    assert owed_to(owing) == [here]
    assert not owing.request_rebuild(world.firm_a, gone)
    assert not owing.request_rebuild(world.firm_a, gone, dry_run=True)


def test_another_firm_s_matter_under_the_jobs_firm_is_owed_nothing(
    world: World, owing: FrameHealing
) -> None:
    foreign = world.matter(world.firm_b)
    world.god.execute(
        "INSERT INTO ops.matter_frame_jobs (firm_id, matter_id, rebuild_needed) "
        "VALUES (%s, %s, true)",
        [world.firm_a, foreign],
    )
    assert owing.owed(6) == []


def test_past_the_bound_a_job_is_given_up_until_a_person_asks_for_it(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    matter = failed(world, claims, BOUND + 1)
    assert owing.owed(6) == []
    (named,) = owing.given_up().named
    assert (named.firm_id, named.matter_id) == (world.firm_a, matter)
    before = world.job(matter)
    assert owing.request_rebuild(world.firm_a, matter, dry_run=True)
    assert world.job(matter) == before
    assert owing.request_rebuild(world.firm_a, matter)
    assert not owing.given_up().count
    assert owed_to(owing) == [matter]


def test_the_given_up_are_told_oldest_first(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    old, young = (failed(world, claims, BOUND + 1) for _ in range(2))
    world.god.execute(
        "UPDATE ops.matter_frame_jobs SET updated_at = now() - interval '1 day' "
        "WHERE matter_id = %s",
        [old],
    )
    assert [frame.matter_id for frame in owing.given_up().named] == [old, young]


def test_the_bound_is_the_settings_and_zero_heals_no_failure(
    world: World, database: Database
) -> None:
    claims = FrameJobClaims(database, lease_seconds=60, max_tries=0)
    matter = failed(world, claims, 1)
    owing = FrameHealing(database, max_tries=0)
    assert owing.owed(6) == []
    assert [frame.matter_id for frame in owing.given_up().named] == [matter]


def test_a_rebuild_asked_for_while_the_frame_is_built_is_done_afterwards(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    request = asked(world)
    holder = won(claims, request)
    assert owing.request_rebuild(world.firm_a, request.matter_id)
    assert owing.owed(6) == []
    assert job(world, request)["run_status"] == "running"
    claims.release(holder)
    assert owed_to(owing) == [request.matter_id]
    assert claims.release(won(claims, healing_of(request)))
    assert owing.owed(6) == []


def test_a_rebuild_is_asked_for_by_the_matters_own_firm(
    world: World, claims: FrameJobClaims, owing: FrameHealing
) -> None:
    matter = failed(world, claims)
    before = world.job(matter)
    assert not owing.request_rebuild(world.firm_b, matter)
    assert not owing.request_rebuild(world.firm_a, uuid4())
    assert world.job(matter) == before


@pytest.mark.parametrize("query", ["FIRMS_OWED", "JOBS_OWED"])
def test_the_look_reads_the_index_of_what_is_owed(
    world: World, database: Database, query: str
) -> None:
    """Its cost grows with what is owed, not with the frames that were built."""
    world.god.execute(
        "INSERT INTO ops.matter_frame_jobs (firm_id, matter_id) "
        "SELECT %s, gen_random_uuid() FROM generate_series(1, 20000)",
        [world.firm_a],
    )
    many_owed(world, world.firm_b, 20)
    world.god.execute("ANALYZE ops.matter_frame_jobs")
    asked_for = {"firm_id": world.firm_b, "max_tries": 3, "window": 100}
    statement = getattr(healing, query)
    with database.staff() as connection:
        plan = "\n".join(
            connection.scalars(
                text(f"EXPLAIN {statement.text}"),
                {name: asked_for[name] for name in statement._bindparams},
            )
        )
    assert "matter_frame_jobs_owed_idx" in plan
    assert "Seq Scan on matter_frame_jobs" not in plan
