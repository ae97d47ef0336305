"""The healing side of the framer rail: its sensor, its job, the sweep; and re-execution."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    JobDefinition,
    JobExecutionResult,
    ReexecutionOptions,
    RunRequest,
    SensorDefinition,
    build_sensor_context,
    execute_job,
    reconstructable,
)
from dagster._core.definitions.sensor_definition import SensorExecutionData

from pramaan_pipelines.definitions import defs
from pramaan_pipelines.framer.claims import (
    DEFAULT_MAX_TRIES,
    Claim,
    FrameJobClaims,
    FrameRequest,
)
from pramaan_pipelines.framer.completion import complete_frame
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.resources import make_resources
from pramaan_pipelines_tests.framer.bench import TRACE, again, won
from pramaan_pipelines_tests.orchestration.bench import FramerRun, Rail
from pramaan_pipelines_tests.support.world import World

HEALING_JOB = "frame_healing_job"
GATES = ("owed", "coherence", "consent", "claim", "invoke", "release", "acknowledge")
BOUND = DEFAULT_MAX_TRIES


def healing_of(request: FrameRequest) -> FrameRequest:
    """Return what a healing run asks for the same matter."""
    return FrameRequest(request.firm_id, request.matter_id, None)


def fail(world: World, claim: Claim) -> None:
    """Let the claim's agent say that it failed."""
    assert complete_frame(
        world.database, firm_id=claim.firm_id, agent_run_id=claim.agent_run_id, succeeded=False
    )


def failed(world: World, claims: FrameJobClaims, tries: int = 1, firm: UUID | None = None) -> UUID:
    """Return a matter whose frame failed `tries` times."""
    firm = firm or world.firm_a
    request = FrameRequest(firm, world.matter(firm), uuid4())
    fail(world, won(claims, request))
    set_tries(world, request.matter_id, tries)
    return request.matter_id


def owed_after_a_lost_claim(world: World, claims: FrameJobClaims) -> FrameRequest:
    """Return the request of an event that lost its claim, whose holder then released."""
    first = FrameRequest(world.firm_a, world.matter(world.firm_a), uuid4())
    holder = won(claims, first)
    second = again(first)
    claims.claim(second, TRACE)
    assert claims.release(holder)
    return second


def set_tries(world: World, matter: UUID, tries: int) -> None:
    world.god.execute(
        "UPDATE ops.matter_frame_jobs SET failed_tries = %s WHERE matter_id = %s", [tries, matter]
    )


def triggers(world: World, matter: UUID) -> list[str | None]:
    """Return the trigger_event_id of the matter's agent runs, oldest first."""
    return [run["trigger_event_id"] for run in world.runs(matter)]


@dataclass
class Healing:
    """The rail, and what makes up for what its workers leave undone."""

    rail: Rail

    @property
    def world(self) -> World:
        return self.rail.world

    def tick(self) -> SensorExecutionData:
        """Evaluate the healing sensor as the daemon does."""
        sensor: SensorDefinition = defs.get_repository_def().get_sensor_def("frame_healing_sensor")
        needed = {key: make_resources()[key] for key in ("settings", "database", "healing")}
        with build_sensor_context(instance=self.rail.instance, resources=needed) as context:
            return sensor.evaluate_tick(context)

    def asked(self) -> list[str]:
        """Return the matters that a tick asks runs for."""
        return [request.tags[names.TAG_MATTER] for request in self.tick().run_requests or []]

    def said(self) -> str:
        """Return why a tick asks for none."""
        data = self.tick()
        assert not data.run_requests
        assert data.skip_message
        return data.skip_message

    def run(self, request: RunRequest) -> FramerRun:
        """Run what the sensor asks for, as the daemon would."""
        result = defs.resolve_job_def(HEALING_JOB).execute_in_process(
            run_config=request.run_config,
            tags=request.tags,
            instance=self.rail.instance,
            raise_on_error=False,
        )
        return FramerRun(result, self.rail.instance)

    def heal(self) -> list[FramerRun]:
        """Run all that one tick asks for."""
        return [self.run(request) for request in self.tick().run_requests or []]

    def sweep(self) -> None:
        """Run the sweep's job once."""
        assert defs.resolve_job_def("stale_frame_job_sweep_job").execute_in_process(
            instance=self.rail.instance
        )

    def die(self, matter: UUID) -> None:
        """Let the lease of a dead worker's claim pass, and sweep."""
        self.rail.lease_over(matter)
        self.sweep()

    def job(self, matter: UUID) -> dict[str, Any]:
        found = self.world.job(matter)
        assert found is not None
        return found

    def framed(self, matter: UUID) -> bool:
        """Tell whether the matter has its frame, and nothing is left to do for it."""
        job = self.job(matter)
        done = [run["status"] for run in self.world.runs(matter)].count("succeeded")
        return done >= 1 and (job["run_status"], job["rebuild_needed"]) == ("idle", False)

    def take_places(self, count: int, job: str = HEALING_JOB, **tags: str) -> None:
        """Let `count` runs of `job` be under way."""
        target = defs.resolve_job_def(job)
        for _ in range(count):
            self.rail.instance.create_run_for_job(
                target,
                run_config={"ops": {"owed": {"config": {"firm_id": "x", "matter_id": "x"}}}},
                status=DagsterRunStatus.STARTED,
                tags={**target.run_tags, **tags},
            )


def framer_job() -> JobDefinition:
    return defs.resolve_job_def("framer_trigger_job")


def healing_job() -> JobDefinition:
    return defs.resolve_job_def(HEALING_JOB)


@dataclass
class Kept:
    """Runs on an instance that keeps them, so that they can be re-executed from failure."""

    instance: DagsterInstance

    def first(self, request: RunRequest, *, healing: bool = False) -> "KeptRun":
        result = execute_job(
            reconstructable(healing_job if healing else framer_job),
            instance=self.instance,
            run_config=request.run_config,
            tags=request.tags,
        )
        return KeptRun(result, self.instance)

    def from_failure(self, run: "KeptRun", *, healing: bool = False) -> "KeptRun":
        """Re-execute as the button of that name does."""
        result = execute_job(
            reconstructable(healing_job if healing else framer_job),
            instance=self.instance,
            run_config=run.record_config,
            reexecution_options=ReexecutionOptions.from_failure(run.result.run_id, self.instance),
        )
        return KeptRun(result, self.instance)


@dataclass(frozen=True)
class KeptRun:
    """A finished run on an instance that keeps it."""

    result: JobExecutionResult
    instance: DagsterInstance

    @property
    def record_config(self) -> Mapping[str, Any]:
        found = self.instance.get_run_by_id(self.result.run_id)
        assert found is not None
        return found.run_config

    @property
    def tags(self) -> Mapping[str, str]:
        found = self.instance.get_run_by_id(self.result.run_id)
        assert found is not None
        return found.tags

    @property
    def outcome(self) -> tuple[str | None, str | None]:
        return self.tags.get(names.TAG_OUTCOME), self.tags.get(names.TAG_GATE)

    @property
    def failed(self) -> list[str]:
        return [str(e.step_key) for e in self.result.all_events if e.is_step_failure]

    @property
    def ran(self) -> list[str]:
        return [str(e.step_key) for e in self.result.all_events if e.is_step_success]
