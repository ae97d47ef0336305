"""Contenders for frame jobs, as threads of one process: each claims, again and again."""

from threading import Thread
from time import perf_counter
from typing import Any
from uuid import UUID, uuid4

from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.framer.claims import Claim, FrameJobClaims, FrameRequest
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.bench.workers.protocol import Seen, order, serve


def main(asked: dict[str, Any]) -> None:
    """Claim for so many seconds; tell the run row of each that won, nothing of one that lost."""
    database = Database.connect(asked["url"], pool_size=asked["threads"])
    claims = FrameJobClaims(database, lease_seconds=0)
    firm = UUID(asked["firm"])
    matters = [UUID(matter) for matter in asked["matters"]]

    def contend(number: int, until: float, decided: list[str]) -> None:
        at = number
        while perf_counter() < until:
            at += asked["contenders"]
            matter = matters[at % len(matters)]
            claim = claims.claim(FrameRequest(firm, matter, uuid4()), TraceContext())
            decided.append(str(claim.agent_run_id) if isinstance(claim, Claim) else "")

    def go() -> Seen:
        decided: list[list[str]] = [[] for _ in range(asked["threads"])]
        started = perf_counter()
        until = started + asked["seconds"]
        threads = [
            Thread(target=contend, args=(asked["first"] + number, until, decided[number]))
            for number in range(asked["threads"])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return perf_counter() - started, [run for each in decided for run in each]

    serve(go)


if __name__ == "__main__":
    main(order())
