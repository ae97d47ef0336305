"""The machines: the outbox alone, the framer alone, and an event's whole road.

Each ends by driving all that is left to its end, without another fault; what is asserted there is
that nothing was lost on the way.
"""

import sys
from uuid import UUID, uuid4

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from pramaan_pipelines.framer.claims import FrameRequest
from pramaan_pipelines.outbox.lanes import DOMAIN_EVENT, LANES, Lane
from pramaan_pipelines.outbox.producers import emit_domain_event
from pramaan_pipelines_tests.properties.bench import Bench, Machine
from pramaan_pipelines_tests.properties.framer_rules import FramerRules
from pramaan_pipelines_tests.properties.framer_side import Message
from pramaan_pipelines_tests.properties.outbox_rules import OutboxRules
from pramaan_pipelines_tests.support.world import envelope


class OutboxMachine(OutboxRules):
    """Rows, from their producer to their destination."""

    def teardown(self) -> None:
        try:
            if not under_way():
                self.calm_outbox()
        finally:
            self.close()


class FramerMachine(FramerRules):
    """Events, from their message to their frame."""

    def teardown(self) -> None:
        if not under_way():
            self.calm_frames()


class RoadMachine(OutboxRules, FramerRules):
    """Events, from their producer to their frame: what the destination takes is a message."""

    def announce(self, request: FrameRequest) -> None:
        event = envelope(request.firm_id, request.matter_id, event_id=request.event_id or uuid4())
        with self.bench.database.firm(request.firm_id) as connection:
            emit_domain_event(connection, event)
        self.requests[event.event_id] = request
        self.learn(DOMAIN_EVENT, event.event_id)

    def created(self, matter: UUID, event: UUID) -> None:
        self.know(matter, self.world.firm_a)
        self.requests[event] = FrameRequest(self.world.firm_a, matter, event)

    def arrived(self, lane: Lane, event: UUID) -> None:
        if lane is DOMAIN_EVENT:
            self.messages.append(Message(self.requests[event]))

    def teardown(self) -> None:
        try:
            if not under_way():
                # A person mends what was parked: here every event is to have its end.
                for lane in LANES:
                    self.redrive(lane.name)
                self.calm_outbox()
                self.calm_frames()
        finally:
            self.close()


def under_way() -> bool:
    """Tell whether something is being raised: then it is what to report, not what follows of it."""
    return sys.exc_info()[0] is not None


def run(machine: type[Machine], bench: Bench, chosen: settings) -> None:
    """Let hypothesis run `machine` on `bench`."""

    class OnTheBench(machine):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            super().__init__(bench)

    OnTheBench.__name__ = OnTheBench.__qualname__ = machine.__name__
    run_state_machine_as_test(OnTheBench, settings=chosen)


MACHINES: tuple[type[Machine], ...] = (OutboxMachine, FramerMachine, RoadMachine)
