"""The road as assets: what stands where, and which way things flow.

Promises: the graph reads as the pipeline; events on it come from the runs that do the work.
Never: a run that exists only to paint the picture.
"""

from typing import Final

from dagster import AssetKey, AssetSpec

from pramaan_pipelines.outbox.lanes import DOMAIN_EVENT, LANES, Lane

HOST: Final = "application"
OUTBOX: Final = "outbox"
MESSAGING: Final = "messaging"
FRAMER: Final = "framer"

DOCUMENTS: Final = AssetKey(["application", "documents"])
MATTERS: Final = AssetKey(["application", "matters"])
CONSENTS: Final = AssetKey(["application", "firm_inference_egress_consents"])
FRAMER_QUEUE: Final = AssetKey(["messaging", "framer_events_queue"])
FRAME_JOBS: Final = AssetKey(["framer", "matter_frame_jobs"])
AGENT_RUNS: Final = AssetKey(["framer", "agent_run"])
AGENT: Final = AssetKey(["framer", "vega_matter_frame"])


def outbox_key(lane: Lane) -> AssetKey:
    """Return the asset of the outbox that `lane` drains."""
    return AssetKey(["outbox", lane.outbox.table.removeprefix("ops.")])


def destination_key(lane: Lane) -> AssetKey:
    """Return the asset of the queue or bus that `lane` sends to."""
    return AssetKey(["messaging", lane.destination])


def _outboxes() -> list[AssetSpec]:
    sources = {"document_ingest_outbox": DOCUMENTS, "domain_event_outbox": MATTERS}
    keys = dict.fromkeys(outbox_key(lane) for lane in LANES)
    return [
        AssetSpec(
            key,
            deps=[sources[key.path[-1]]],
            group_name=OUTBOX,
            kinds={"postgres", "table"},
            description=(
                f"`ops.{key.path[-1]}`: written by the application in its own transaction, drained "
                "by the relay of each event_type. Rows that wait are pending; rows that can never "
                "be sent are parked."
            ),
        )
        for key in keys
    ]


def _destinations() -> list[AssetSpec]:
    return [
        AssetSpec(
            destination_key(lane),
            deps=[outbox_key(lane)],
            group_name=MESSAGING,
            kinds={"aws", "eventbridge" if lane is DOMAIN_EVENT else "sqs"},
            description=(
                f"Where `{lane.name}_job` sends `{lane.event_type}`. Each materialization is one "
                "relay run that sent something; if they stop while rows are pending, look at the "
                f"runs of `{lane.name}_job`."
            ),
        )
        for lane in LANES
    ]


ROAD: Final = [
    AssetSpec(
        DOCUMENTS,
        group_name=HOST,
        kinds={"postgres", "table"},
        description="The application's documents, with their registration_status.",
    ),
    AssetSpec(
        MATTERS,
        group_name=HOST,
        kinds={"postgres", "table"},
        description="The application's matters, under record-level visibility.",
    ),
    AssetSpec(
        CONSENTS,
        group_name=HOST,
        kinds={"postgres", "table"},
        description="Each firm's inference-egress consent. Absent means not granted.",
    ),
    *_outboxes(),
    *_destinations(),
    AssetSpec(
        FRAMER_QUEUE,
        deps=[destination_key(DOMAIN_EVENT)],
        group_name=MESSAGING,
        kinds={"aws", "sqs"},
        description=(
            "The framer queue behind the bus's rule, with its dead-letter queue. "
            "`framer_events_sensor` makes one run of each message and observes its depth."
        ),
    ),
    AssetSpec(
        FRAME_JOBS,
        deps=[FRAMER_QUEUE, MATTERS, CONSENTS],
        group_name=FRAMER,
        kinds={"postgres", "table"},
        description=(
            "`ops.matter_frame_jobs`: one row per matter says who may build its frame. Shared with "
            "other services: add, never reshape."
        ),
    ),
    AssetSpec(
        AGENT_RUNS,
        deps=[FRAME_JOBS],
        group_name=FRAMER,
        kinds={"postgres", "table"},
        description="`agents.agent_run`: the run row that is committed before the agent is called.",
    ),
    AssetSpec(
        AGENT,
        deps=[AGENT_RUNS],
        group_name=FRAMER,
        kinds={"agent"},
        description="The agent that builds the frame, behind one seam; it dedupes by agent_run_id.",
    ),
]
