"""What ops, schedules and sensors are given: settings, database, claims, sweep, queue, agent.

Promises: each is made when a run or a tick needs it, shared by what depends on it, and closed when
that run or tick ends.
Never: opens anything at import.
"""

from collections.abc import Iterator

from dagster import InitResourceContext, ResourceDefinition, resource

from pramaan_pipelines.framer.agent import AgentInvoker, LoggingAgent
from pramaan_pipelines.framer.agentcore import AgentCoreAgent
from pramaan_pipelines.framer.claims import FrameJobClaims
from pramaan_pipelines.framer.healing import FrameHealing
from pramaan_pipelines.framer.sweep import StaleFrameJobSweep
from pramaan_pipelines.orchestration.consumers import SUBSCRIPTIONS
from pramaan_pipelines.orchestration.pointers import pointer_io_manager
from pramaan_pipelines.settings import Settings, ViewSettings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.export import flush
from pramaan_pipelines.telemetry.logs import configure_logging
from pramaan_pipelines.telemetry.provider import Telemetry
from pramaan_pipelines.watch.look import Watch


@resource(description="The environment's settings; a missing one is named, with what to do.")
def settings_resource(_: InitResourceContext) -> Settings:
    """Read the environment; every run and tick of ours begins here, and so does its log."""
    settings = Settings.load()
    configure_logging(settings.pramaan_log_format)
    return settings


@resource(
    description="Postgres as the service role (DATABASE_URL).",
    required_resource_keys={"settings"},
)
def database_resource(context: InitResourceContext) -> Iterator[Database]:
    """Open for one run or one tick."""
    database = Database.connect(_settings(context).database_url)
    try:
        yield database
    finally:
        database.close()


@resource(
    description=(
        "Claims on ops.matter_frame_jobs, with the lease of MATTER_FRAME_JOB_LEASE_SECONDS. The "
        "table's columns, statuses and claim semantics are shared with other services."
    ),
    required_resource_keys={"settings", "database"},
)
def claims_resource(context: InitResourceContext) -> FrameJobClaims:
    """Make the claims with the lease of the settings."""
    settings = _settings(context)
    return FrameJobClaims(
        context.resources.database,
        lease_seconds=settings.matter_frame_job_lease_seconds,
        max_tries=settings.matter_frame_job_max_tries,
    )


@resource(
    description="What is owed by ops.matter_frame_jobs to firms that consent now.",
    required_resource_keys={"settings", "database"},
)
def healing_resource(context: InitResourceContext) -> FrameHealing:
    """Make the healing with the bound of the settings."""
    tries = _settings(context).matter_frame_job_max_tries
    return FrameHealing(context.resources.database, max_tries=tries)


@resource(
    description="The stale sweep of ops.matter_frame_jobs, with the same lease as the claims.",
    required_resource_keys={"settings", "database"},
)
def sweep_resource(context: InitResourceContext) -> StaleFrameJobSweep:
    """Make the sweep with the lease of the settings."""
    lease = _settings(context).matter_frame_job_lease_seconds
    return StaleFrameJobSweep(context.resources.database, lease_seconds=lease)


@resource(description="What an operator may set of the view: thresholds, owners, retention.")
def view_settings_resource(_: InitResourceContext) -> ViewSettings:
    """Read the environment."""
    return ViewSettings.load()


@resource(
    description="What stands where, read at a bounded cost.",
    required_resource_keys={"settings", "database", "view_settings"},
)
def watch_resource(context: InitResourceContext) -> Watch:
    """Make the watch with the grace of the settings."""
    view: ViewSettings = context.resources.view_settings
    return Watch(
        _settings(context),
        context.resources.database,
        grace_seconds=view.pramaan_check_stale_grace_seconds,
    )


@resource(
    description="The tracer and the meter of the process that does the work.",
    required_resource_keys={"settings"},
)
def telemetry_resource(context: InitResourceContext) -> Iterator[Telemetry]:
    """Set up where the run is, which is after any fork; hand over at its end, within a bound."""
    try:
        yield Telemetry.current(_settings(context).pramaan_environment)
    finally:
        flush()


@resource(
    description="The agent runtime that the invoke reaches (PRAMAAN_AGENT).",
    required_resource_keys={"settings"},
)
def agent_resource(context: InitResourceContext) -> AgentInvoker:
    """Make the invoker that the settings name."""
    match _settings(context).pramaan_agent:
        case "stub":
            return LoggingAgent()
        case "agentcore":
            return AgentCoreAgent.from_settings(_settings(context))


def make_resources() -> dict[str, ResourceDefinition]:
    """Return the resources by key."""
    return {
        "settings": settings_resource,
        "view_settings": view_settings_resource,
        "watch": watch_resource,
        "database": database_resource,
        "telemetry": telemetry_resource,
        "claims": claims_resource,
        "sweep": sweep_resource,
        "healing": healing_resource,
        "agent": agent_resource,
        "io_manager": pointer_io_manager,
        **{key: made for entry in SUBSCRIPTIONS for key, made in entry.resources().items()},
    }


def _settings(context: InitResourceContext) -> Settings:
    settings: Settings = context.resources.settings
    return settings
