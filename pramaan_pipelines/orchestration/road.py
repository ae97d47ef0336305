"""The road as assets: what stands where, and which way things flow.

Promises: the graph reads as the pipeline; events on it come from the runs that do the work, or
from a tick that looks anyway.
Never: a run that exists only to paint the picture.
"""

from collections.abc import Sequence
from typing import Final

from dagster import AssetKey, AssetSpec

from pramaan_pipelines.messaging.queues import (
    FRAMER_EVENTS,
    QUEUES,
    UNDELIVERABLE,
    WatchedQueue,
)
from pramaan_pipelines.outbox.lanes import DOMAIN_EVENT, LANES, Lane
from pramaan_pipelines.watch.checks import subject_of

HOST: Final = "application"
OUTBOX: Final = "outbox"
MESSAGING: Final = "messaging"
FRAMER: Final = "framer"

DOCUMENTS: Final = AssetKey([HOST, "documents"])
MATTERS: Final = AssetKey([HOST, "matters"])
CONSENTS: Final = AssetKey([HOST, "firm_inference_egress_consents"])
UNDELIVERABLE_EVENTS: Final = AssetKey([MESSAGING, UNDELIVERABLE])
FRAME_JOBS: Final = AssetKey([FRAMER, "matter_frame_jobs"])
AGENT_RUNS: Final = AssetKey([FRAMER, "agent_run"])
AGENT: Final = AssetKey([FRAMER, "vega_matter_frame"])

_TABLE: Final = {"postgres", "table"}
_QUEUE: Final = {"aws", "sqs"}


def outbox_key(lane: Lane) -> AssetKey:
    """Return the asset of the outbox that `lane` drains."""
    return AssetKey([OUTBOX, subject_of(lane.outbox)])


def queue_key(queue: WatchedQueue) -> AssetKey:
    """Return the asset of `queue`."""
    return AssetKey([MESSAGING, queue.name])


def destination_key(lane: Lane) -> AssetKey:
    """Return the asset of the queue or bus that `lane` sends to."""
    return AssetKey([MESSAGING, lane.destination])


def road(owners: Sequence[str] = ()) -> list[AssetSpec]:
    """Return the assets, owned by `owners`: e-mail addresses, or team:name."""
    specs = [
        *_application(),
        *_outboxes(),
        *_destinations(),
        *_dead_letters(),
        *_framer(),
    ]
    return [spec.replace_attributes(owners=list(owners)) for spec in specs]


def _application() -> list[AssetSpec]:
    return [
        AssetSpec(
            DOCUMENTS,
            group_name=HOST,
            kinds=_TABLE,
            description=(
                "The application's documents, with their registration_status. Written by the "
                "application; nothing here changes but the registration_status of a request. One "
                "that stays `queued` while nothing is pending was sent: look at its queue's "
                "consumer."
            ),
        ),
        AssetSpec(
            MATTERS,
            group_name=HOST,
            kinds=_TABLE,
            description=(
                "The application's matters, under record-level visibility. A matter that is gone "
                "gets no frame: its event is refused at `coherence`."
            ),
        ),
        AssetSpec(
            CONSENTS,
            group_name=HOST,
            kinds=_TABLE,
            description=(
                "Each firm's inference-egress consent; absent means not granted. Without it a "
                "matter stops at `consent`: see the check `consent_blocked` of "
                "framer/matter_frame_jobs for what waits, and what to do when consent comes."
            ),
        ),
    ]


def _outboxes() -> list[AssetSpec]:
    sources = {"document_ingest_outbox": DOCUMENTS, "domain_event_outbox": MATTERS}
    keys = dict.fromkeys(outbox_key(lane) for lane in LANES)
    return [
        AssetSpec(
            key,
            deps=[sources[key.path[-1]]],
            group_name=OUTBOX,
            kinds=_TABLE,
            description=(
                f"`ops.{key.path[-1]}`: written by the application in its own transaction, drained "
                "by the relay of each event_type. Its checks say what to do: pending rows that "
                "grow old mean a relay that does not run or a destination that is out; parked rows "
                "wait for redrive_parked_rows_job; a type that no lane drains waits for code."
            ),
        )
        for key in keys
    ]


def _told(lanes: list[Lane]) -> str:
    return ", ".join(f"`{lane.name}_job` sends `{lane.event_type}`" for lane in lanes)


def _destinations() -> list[AssetSpec]:
    # Several lanes may end on one bus.
    senders: dict[AssetKey, list[Lane]] = {}
    for lane in LANES:
        senders.setdefault(destination_key(lane), []).append(lane)
    return [
        AssetSpec(
            key,
            deps=list(dict.fromkeys(outbox_key(lane) for lane in lanes)),
            group_name=MESSAGING,
            kinds={"aws", "eventbridge"} if DOMAIN_EVENT in lanes else _QUEUE,
            description=(
                f"Where {_told(lanes)}. Each materialization is one relay run that sent something, "
                "with its numbers; if they stop while rows are pending, look at the last runs of "
                "that job: a red one names what is out."
            ),
        )
        for key, lanes in senders.items()
    ] + [
        AssetSpec(
            queue_key(queue),
            deps=[destination_key(DOMAIN_EVENT)],
            group_name=MESSAGING,
            kinds=_QUEUE,
            description=(
                "A queue behind a rule of the bus. Its sensor makes one run of each message. If "
                "messages stay visible while no run starts, look at the sensor's ticks."
            ),
        )
        for queue in QUEUES
        if queue_key(queue) not in senders
    ]


def _dead_letters() -> list[AssetSpec]:
    return [
        AssetSpec(
            AssetKey([MESSAGING, queue.dead_letters]),
            deps=[queue_key(queue)],
            group_name=MESSAGING,
            kinds=_QUEUE,
            description=(
                f"Messages of {queue.name} that three deliveries did not bring to their end; kept "
                "for 14 days. redrive_dead_letters_job shows each with its reason, and sends it "
                "again once the cause is mended."
            ),
        )
        for queue in QUEUES
    ] + [
        AssetSpec(
            UNDELIVERABLE_EVENTS,
            deps=[destination_key(DOMAIN_EVENT)],
            group_name=MESSAGING,
            kinds=_QUEUE,
            description=(
                "Events that the bus's rule could not deliver to the framer queue (its policy, its "
                "key, a queue that was deleted); kept for 14 days. `pramaan doctor` looks at the "
                "route; redrive_dead_letters_job sends the events to the framer queue."
            ),
        )
    ]


def _framer() -> list[AssetSpec]:
    return [
        AssetSpec(
            FRAME_JOBS,
            deps=[queue_key(FRAMER_EVENTS), MATTERS, CONSENTS],
            group_name=FRAMER,
            kinds=_TABLE,
            description=(
                "`ops.matter_frame_jobs`: one row per matter says who may build its frame. Each "
                "claim is observed here. What waits for a person is in its checks: "
                "rebuild_frame_job takes up what healing gave up, stale_frame_job_sweep_job sweeps "
                "now. Shared with other services: add, never reshape."
            ),
        ),
        AssetSpec(
            AGENT_RUNS,
            deps=[FRAME_JOBS],
            group_name=FRAMER,
            kinds=_TABLE,
            description=(
                "`agents.agent_run`: the run row that is committed before the agent is called. "
                "Search the runs by pramaan/matter_id to find what became of a matter."
            ),
        ),
        AssetSpec(
            AGENT,
            deps=[AGENT_RUNS],
            group_name=FRAMER,
            kinds={"agent"},
            description=(
                "The agent that builds the frame, behind one seam; each materialization is an "
                "invoke that it answered. It dedupes by agent_run_id, so that a repeated invoke is "
                "harmless. While it is out, runs are red at `invoke` and say what comes next."
            ),
        ),
    ]


KEYS: Final = {spec.key.path[-1]: spec.key for spec in road()}
"""The assets by the name that the watch gives them."""
