"""This project's relay, as a relay run calls it."""

import logging
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from pramaan_pipelines.messaging.publisher import OutboundMessage, SendResult, SendStatus
from pramaan_pipelines.outbox.lanes import LANES
from pramaan_pipelines.outbox.relay import DRAINS_AT_ONCE, run_relay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry
from pramaan_pipelines_tests.bench.workers.protocol import Seen, order, serve


class NullSink:
    """Takes everything, and remembers what; or forgets it, where memory is what is measured."""

    destination = "nowhere"
    taken = SendResult(SendStatus.ACCEPTED, message_id="m")

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.forgets = False

    def send(self, messages: Sequence[OutboundMessage], *, deadline: float) -> list[SendResult]:
        """Take all."""
        del deadline
        if not self.forgets:
            self.seen += [message.event_id for message in messages]
        return [self.taken] * len(messages)

    def verify(self) -> None:
        """Be there."""


def main(asked: dict[str, Any], null: NullSink) -> None:
    """Run the lane that is asked for, to `null` or where its rows belong."""
    # Made and filtered as always, but not printed between the bench's own lines.
    logging.getLogger("pramaan_pipelines").addHandler(logging.NullHandler())
    (lane,) = (lane for lane in LANES if lane.name == asked["lane"])
    settings = Settings.model_validate(asked["settings"])
    database = Database.connect(settings.database_url)
    null.forgets = asked.get("forgets", False)
    publisher = null if asked["sink"] == "null" else lane.publisher(settings)
    telemetry = Telemetry.current("bench")
    limits = DrainLimits(rows=asked["batch"])

    def drain() -> Seen:
        null.seen = []
        started = perf_counter()
        run_relay(
            lane,
            database=database,
            publisher=publisher,
            telemetry=telemetry,
            limits=limits,
            budget_seconds=600,
            at_once=DRAINS_AT_ONCE,
        )
        return perf_counter() - started, null.seen

    serve(drain)


if __name__ == "__main__":
    main(order(), NullSink())
