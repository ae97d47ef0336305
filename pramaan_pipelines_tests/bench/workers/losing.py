"""A relay with two faults, to see that the bench sees them: it loses a row, and doubles another."""

from collections.abc import Sequence

from pramaan_pipelines.messaging.publisher import OutboundMessage, SendResult
from pramaan_pipelines_tests.bench.workers.ours import NullSink, main
from pramaan_pipelines_tests.bench.workers.protocol import order


class LosingSink(NullSink):
    """Says that it took everything."""

    def send(self, messages: Sequence[OutboundMessage], *, deadline: float) -> list[SendResult]:
        """Take all but the first, and the last one twice."""
        super().send([*messages[1:], messages[-1]], deadline=deadline)
        return [self.taken] * len(messages)


if __name__ == "__main__":
    main(order(), LosingSink())
