"""The healing job and its sensor: frames that are owed, without a message.

Promises: level-triggered, by the job table; a healing run passes the same gates as a message's run,
from coherence on, and takes the same places.
Never: decides what is owed, or names a run by what a retry would repeat (H12): the claim looks
again, and a run that died before its claim is simply yielded again.
"""

from dagster import (
    DefaultSensorStatus,
    ResourceParam,
    RunRequest,
    RunsFilter,
    SensorEvaluationContext,
    SkipReason,
    in_process_executor,
    job,
    sensor,
)

from pramaan_pipelines.contracts.text import counted
from pramaan_pipelines.framer.healing import FrameHealing, OwedFrame
from pramaan_pipelines.orchestration import framer_ops as ops
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.framer import (
    FRAMER_PLACES,
    gates_from_coherence,
    unfinished_framer_runs,
)
from pramaan_pipelines.orchestration.unfinished import UNFINISHED


@job(
    description=(
        "One run per frame that is owed: its worker died, or its event lost a claim. The gates "
        "are those of framer_trigger_job, from coherence on. Started by `frame_healing_sensor`; "
        "safe to start by hand: what is not owed is not claimed."
    ),
    executor_def=in_process_executor,
    tags={
        names.TAG_RAIL: names.RAIL_FRAMER,
        **names.NO_RUN_RETRIES,
        **names.max_runtime(600),
    },
)
def frame_healing_job() -> None:
    """Wire the gates from coherence on."""
    ops.acknowledge(gates_from_coherence(ops.owed_frame()))


@sensor(
    job=frame_healing_job,
    minimum_interval_seconds=20,
    default_status=DefaultSensorStatus.RUNNING,
    description=(
        "Looks at the job table for frames that are owed to firms that consent now, and yields a "
        "run for each. Its skip reason names what healing has given up, which waits for a person."
    ),
)
def frame_healing_sensor(
    context: SensorEvaluationContext, healing: ResourceParam[FrameHealing]
) -> list[RunRequest] | SkipReason:
    """Yield a run for each frame owed, as far as places are free."""
    places = FRAMER_PLACES - unfinished_framer_runs(context.instance)
    if places <= 0:
        return SkipReason(f"all {FRAMER_PLACES} places are taken; what is owed waits")
    under_way = {
        run.tags.get(names.TAG_MATTER)
        for run in context.instance.get_runs(
            RunsFilter(job_name=frame_healing_job.name, statuses=UNFINISHED)
        )
    }
    owed = healing.owed(places + len(under_way))
    owed = [frame for frame in owed if str(frame.matter_id) not in under_way][:places]
    if owed:
        return [run_request(frame) for frame in owed]
    given_up = healing.given_up()
    if given_up.count:
        matters = ", ".join(str(frame.matter_id) for frame in given_up.named[:10])
        return SkipReason(
            f"nothing is owed, BUT {counted(given_up.count, 'frame job')} failed too often to be "
            f"healed; look at the runs of their matters, then rebuild them: {matters}"
        )
    return SkipReason("nothing is owed")


def run_request(frame: OwedFrame) -> RunRequest:
    """Return the run of one owed frame; it has no run_key, on purpose."""
    owed = {"firm_id": str(frame.firm_id), "matter_id": str(frame.matter_id)}
    tags = {names.TAG_FIRM: owed["firm_id"], names.TAG_MATTER: owed["matter_id"]}
    if frame.event_id is not None:
        tags[names.TAG_EVENT] = str(frame.event_id)
    return RunRequest(run_config={"ops": {"owed": {"config": owed}}}, tags=tags)
