"""A code location whose jobs tell of the process that they run in."""

import os
import random
import sys
import time
from uuid import uuid4

from dagster import Definitions, OpExecutionContext, in_process_executor, job, op

VERSION = "first"


class Imports:
    """Hears of each module that is looked for, and in which process; finds none itself."""

    heard: list[tuple[int, str]] = []  # noqa: RUF012 - one for all is what is meant

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> None:
        """Hear of `name`."""
        del path, target
        cls.heard.append((os.getpid(), name))


sys.meta_path.insert(0, Imports)


@op
def look(context: OpExecutionContext) -> None:
    """Tell of this process what two runs must not share."""
    context.instance.add_run_tags(
        context.run_id,
        {
            "pid": str(os.getpid()),
            "parent": str(os.getppid()),
            "chance": f"{random.random()} {uuid4()}",  # noqa: S311 - is it shared?
            "version": VERSION,
            "given": os.environ.get("GIVEN_TO_THE_DAEMON", ""),
            "late": " ".join(name for pid, name in Imports.heard if pid == os.getpid()),
        },
    )


@op
def wait() -> None:
    """Be under way until somebody ends it."""
    time.sleep(120)


@op
def die() -> None:
    """End as no exception would."""
    os._exit(7)


@job(executor_def=in_process_executor)
def looking() -> None:
    """Look once."""
    look()


@job(executor_def=in_process_executor)
def waiting() -> None:
    """Wait for long."""
    wait()


@job(executor_def=in_process_executor)
def dying() -> None:
    """Die at once."""
    die()


defs = Definitions(jobs=[looking, waiting, dying])
