"""A stock Dagster job of eight ops that do nothing, with each of the two executors."""

from dagster import Definitions, JobDefinition, in_process_executor, job, op

OPS = 8


@op
def nothing(before: int) -> int:
    """Do nothing."""
    return before


@op
def begin() -> int:
    """Begin."""
    return 0


def _chain() -> None:
    value = begin()
    for number in range(1, OPS):
        value = nothing.alias(f"nothing_{number}")(value)


@job
def stock_default() -> None:
    """By the default executor, a process an op."""
    _chain()


@job(executor_def=in_process_executor)
def stock_in_process() -> None:
    """All ops in the run's process."""
    _chain()


JOBS: tuple[JobDefinition, ...] = (stock_default, stock_in_process)
defs = Definitions(jobs=JOBS)
