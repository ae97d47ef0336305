"""The rebuild button: dry first, and clear about what it cannot do."""

from uuid import UUID, uuid4

import pytest
from dagster import DagsterInstance
from pydantic import SecretStr

from pramaan_pipelines.framer.claims import FrameJobClaims
from pramaan_pipelines.orchestration.names import DO_IT
from pramaan_pipelines_tests.framer.bench import remove_matter
from pramaan_pipelines_tests.healing.bench import BOUND, failed
from pramaan_pipelines_tests.operations.bench import Pressed, press
from pramaan_pipelines_tests.support.world import World


@pytest.fixture(autouse=True)
def environment(app_url: SecretStr, monkeypatch: pytest.MonkeyPatch) -> None:
    """The button needs the database, and no queue."""
    monkeypatch.setenv("PRAMAAN_ENVIRONMENT", "test")
    monkeypatch.setenv("DATABASE_URL", app_url.get_secret_value())


@pytest.fixture
def given_up(world: World) -> UUID:
    """A matter whose frame failed too often."""
    return failed(world, FrameJobClaims(world.database, lease_seconds=60), BOUND + 1)


def rebuild(instance: DagsterInstance, firm: object, matter: object, **more: object) -> Pressed:
    config = {"firm_id": str(firm), "matter_id": str(matter), **more}
    return press(instance, "rebuild_frame_job", "request_rebuild", config)


def test_it_is_dry_by_default_and_then_marks_the_frame_as_owed(
    world: World, instance: DagsterInstance, given_up: UUID
) -> None:
    before = world.job(given_up)
    dry = rebuild(instance, world.firm_a, given_up)
    assert dry.green
    assert f"matter {given_up}: its frame would be owed" in dry.logs
    assert DO_IT in dry.logs
    assert world.job(given_up) == before
    done = rebuild(instance, world.firm_a, given_up, dry_run=False)
    assert done.green
    assert f"matter {given_up}: its frame is owed" in done.logs
    assert DO_IT not in done.logs
    after = world.job(given_up)
    assert after is not None
    assert (after["rebuild_needed"], after["failed_tries"]) == (True, 0)
    assert after["run_status"] == "failed"


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_cannot_be_built_is_red_and_changes_nothing(
    world: World, instance: DagsterInstance, given_up: UUID, *, dry_run: bool
) -> None:
    before = world.job(given_up)
    for firm, matter in ((world.firm_b, given_up), (world.firm_a, uuid4())):
        run = rebuild(instance, firm, matter, dry_run=dry_run)
        assert "this firm has no frame job for this matter" in run.failure
    for named in (("x", given_up), (world.firm_a, "x")):
        run = rebuild(instance, *named, dry_run=dry_run)
        assert run.failure.startswith(
            "failed at request_rebuild: firm_id and matter_id are not both UUIDs. Copy them from"
        )
    remove_matter(world.god, given_up)
    run = rebuild(instance, world.firm_a, given_up, dry_run=dry_run)
    assert "or the matter is gone" in run.failure
    assert world.job(given_up) == before
