"""How an op ends when something fails: the first line says where, why, and what to do.

Promises: `failed at OP: why. What to do.`; Postgres's own sentence of a database error, never the
statement; the reason stands on the run's tags, as it does for a gate. Every `Failure` of this
project is made here.
Never: hides a `Failure` that says it better.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

from dagster import Config, Failure, OpExecutionContext
from pydantic import ValidationError

from pramaan_pipelines.orchestration.names import TAG_OUTCOME, TAG_REASON
from pramaan_pipelines.store.database import told_of


class FailureReason(StrEnum):
    """Why an op that met no error is red all the same; an error's reason is its kind."""

    UNKNOWN_LANE = "unknown_lane"
    MALFORMED_TIME = "malformed_time"
    MALFORMED_ID = "malformed_id"
    MALFORMED_SWITCH = "malformed_switch"
    MALFORMED_CONFIG = "malformed_config"
    NO_FRAME_JOB = "no_frame_job"
    LETTERS_NOT_TAKEN = "letters_not_taken"
    REPLAY_REPLACED = "replay_replaced"
    TIME_SPENT = "time_spent"
    OUTPUT_GONE = "output_gone"


def red(  # noqa: PLR0913
    where: str,
    reason: str,
    told: str,
    then: str = "",
    *,
    ended: str = "failed",
    metadata: Mapping[str, Any] | None = None,
    allow_retries: bool | None = None,
) -> Failure:
    """Return the end of a run that is to be red.

    Args:
        where: the op, or the gate.
        reason: of a closed set, or the kind of an error.
        told: what happened, a sentence; where `then` is empty, what to do too.
        then: what to do, a sentence.
        ended: how it ended there.
        metadata: shown beside the reason.
        allow_retries: whether the op's own retries may try again; None leaves it to them.
    """
    sentences = " ".join(f"{each.rstrip('.')}." for each in (told, then) if each)
    return Failure(
        f"{ended} at {where}: {sentences}",
        metadata={**(metadata or {}), "reason": str(reason)},
        allow_retries=allow_retries,
    )


def failure(  # noqa: PLR0913
    context: OpExecutionContext,
    reason: str,
    told: str,
    then: str,
    *,
    outcome: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Failure:
    """Return the same of the op that is running, having put its reason on the run's tags.

    Args:
        context: of the op.
        reason: of `FailureReason`, or the kind of an error.
        told: what happened, a sentence.
        then: what to do, a sentence.
        outcome: how the run ended, where runs of its job are searched by that.
        metadata: shown beside the reason.
    """
    tags = {TAG_REASON: str(reason)} | ({} if outcome is None else {TAG_OUTCOME: outcome})
    context.instance.add_run_tags(context.run_id, tags)
    return red(context.op_def.name, reason, told, then, metadata=metadata)


class BoundedConfig(Config):
    """The config of an op whose fields have bounds; one that is out of them is named, never shown.

    Dagster itself checks types before a run, and bounds in the op alone.
    """

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            told = "; ".join(f"{item['loc'][-1]}: {item['msg']}" for item in error.errors())
            then = "Nothing was done: launch it again within the bounds"
            raise red("its config", FailureReason.MALFORMED_CONFIG, told, then) from None


@contextmanager
def first_line_says(
    context: OpExecutionContext, then: str, *, outcome: str | None = None
) -> Iterator[None]:
    """Turn what an op raises into a failed run that says which op, why, and what to do.

    Args:
        context: of the op.
        then: how things stand after that, and what to do; a sentence.
        outcome: how the run ended, where runs of its job are searched by that.
    """
    try:
        yield
    except Failure:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it was, the run must say what it means
        kind = type(error).__name__
        told = f"{kind}: {told_of(error)}"
        raise failure(context, kind, told, then, outcome=outcome) from None
