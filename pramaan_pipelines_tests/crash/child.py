"""A framer worker in a process of its own that kills itself at one boundary.

Run as `python -m pramaan_pipelines_tests.crash.child BOUNDARY INVOKES`, with the run's config on
standard input. INVOKES is the file that the stand-in for the agent's runtime writes to.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn
from unittest.mock import patch

from dagster import DagsterInstance, HookContext, success_hook

from pramaan_pipelines.contracts.invoke import InvokeAnswer, InvokePayload
from pramaan_pipelines.definitions import defs
from pramaan_pipelines.orchestration import resources

IN_THE_INVOKE = "in the invoke"
BEFORE_IT_BEGINS = "before its first op"


def die() -> NoReturn:
    """End as a worker does that the kernel kills: no clean-up of any kind."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still here")


class Runtime:
    """The agent's runtime, which keeps what it was asked for."""

    def __init__(self, invokes: Path, *, deadly: bool = False) -> None:
        self._invokes = invokes
        self._deadly = deadly

    def invoke(self, payload: InvokePayload) -> InvokeAnswer:
        """Write down the run's id, and die where that is asked for."""
        with self._invokes.open("a") as kept:
            kept.write(f"{payload.agent_run_id}\n")
        if self._deadly:
            die()
        return InvokeAnswer.DONE


def main(boundary: str, invokes: Path) -> None:
    """Run the job of the config on standard input, up to `boundary`."""

    @success_hook
    def die_after(context: HookContext) -> None:
        if context.op.name == boundary:
            die()

    if boundary == BEFORE_IT_BEGINS:
        die()
    runtime = Runtime(invokes, deadly=boundary == IN_THE_INVOKE)
    patch.object(resources, "LoggingAgent", lambda: runtime).start()
    job = defs.resolve_job_def("framer_trigger_job").with_hooks({die_after})
    with DagsterInstance.ephemeral() as instance:
        job.execute_in_process(run_config=json.load(sys.stdin), instance=instance)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
