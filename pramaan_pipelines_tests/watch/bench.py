"""Frame jobs to look at."""

from uuid import UUID

from pramaan_pipelines_tests.support.world import World

INSERT_JOB = """
    INSERT INTO ops.matter_frame_jobs
        (firm_id, matter_id, run_status, rebuild_needed, failed_tries, claimed_at,
         last_skip_reason, last_skip_at)
    VALUES (%(firm)s, %(matter)s, %(status)s, %(rebuild)s, %(tries)s,
            now() - make_interval(mins => %(claimed)s), %(skip)s,
            now() - make_interval(mins => %(skipped)s))
"""


def job(
    world: World,
    status: str = "idle",
    *,
    matter: UUID | None = None,
    firm: UUID | None = None,
    rebuild: bool = False,
    tries: int = 0,
    claimed: int | None = None,
    skipped: int | None = None,
) -> UUID:
    """Write a frame job, claimed and skipped so many minutes ago; an own matter is made."""
    firm = firm or world.firm_a
    matter = matter or world.matter(firm)
    world.god.execute(
        INSERT_JOB,
        {
            "firm": firm,
            "matter": matter,
            "status": status,
            "rebuild": rebuild,
            "tries": tries,
            "claimed": claimed,
            "skip": None if skipped is None else "consent_blocked",
            "skipped": skipped,
        },
    )
    return matter
