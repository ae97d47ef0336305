"""How an op that is no gate ends when something fails: the first line says what, and what to do.

Promises: Postgres's own sentence of a database error, never the statement; the kind of the error
stands on the run's tags, as it does for a gate.
Never: hides a `Failure` that says it better.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dagster import Failure, OpExecutionContext

from pramaan_pipelines.errors import PramaanError
from pramaan_pipelines.orchestration.names import TAG_REASON
from pramaan_pipelines.store.database import told_of


@contextmanager
def first_line_says(context: OpExecutionContext, remedy: str) -> Iterator[None]:
    """Turn what an op raises into a failed run that says which op, why, and what to do.

    Args:
        context: of the op.
        remedy: what to do where the error does not say it itself; a sentence.
    """
    try:
        yield
    except Failure:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it was, the run must say what it means
        kind = type(error).__name__
        context.instance.add_run_tags(context.run_id, {TAG_REASON: kind})
        told = f"failed at {context.op_def.name}: {kind}: {told_of(error).rstrip('.')}."
        if not isinstance(error, PramaanError):
            told = f"{told} {remedy}"
        raise Failure(told, metadata={"reason": kind}) from None
