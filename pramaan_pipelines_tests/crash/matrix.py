"""Where a framer worker is killed, what is expected of each, and how docs/faults.md tells it."""

from dataclasses import dataclass
from typing import Final

from pramaan_pipelines_tests.crash.child import BEFORE_IT_BEGINS, IN_THE_INVOKE


@dataclass(frozen=True)
class Boundary:
    """Where the worker dies, and what may be there twice because of it.

    Attributes:
        at: after which op, or one of the two special places.
        healed_runs: agent runs that healing added.
        invokes: calls that the agent's runtime got, over all agent runs.
    """

    at: str
    healed_runs: int
    invokes: int


BOUNDARIES: Final = (
    Boundary(BEFORE_IT_BEGINS, healed_runs=0, invokes=1),
    Boundary("parse", healed_runs=0, invokes=1),
    Boundary("environment", healed_runs=0, invokes=1),
    Boundary("dedupe", healed_runs=0, invokes=1),
    Boundary("coherence", healed_runs=0, invokes=1),
    Boundary("consent", healed_runs=0, invokes=1),
    # The claim and its run row are committed: the lease ends, the sweep fails both, healing builds.
    Boundary("claim", healed_runs=1, invokes=1),
    Boundary(IN_THE_INVOKE, healed_runs=1, invokes=2),
    Boundary("invoke", healed_runs=1, invokes=2),
    # Released: the frame stands, only the message is still there, and ends as a duplicate.
    Boundary("release", healed_runs=0, invokes=1),
)


def framer_section() -> str:
    """Return the table; each line of it is a test of test_framer_crash.py."""
    head = (
        "| killed | events lost | agent runs of the event | added by healing | invokes |\n"
        "|---|---|---|---|---|"
    )
    rows = [f"| {_told(b.at)} | 0 | 1 | {b.healed_runs} | {b.invokes} |" for b in BOUNDARIES]
    return "\n".join([head, *rows])


def _told(at: str) -> str:
    return at if at in (BEFORE_IT_BEGINS, IN_THE_INVOKE) else f"after `{at}`"
