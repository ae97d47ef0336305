"""What passes from gate to gate, and how a re-execution from failure finds it again.

Promises: within a run values stay in the process; beside that each is kept, as ids, in the metadata
of the event that tells of it, so that "re-execute from failure" works wherever Dagster's storage
is, and goes away with the run.
Never: keeps anything but the pointers of `Parsed`, `Visit`, `Claimed` and `Ended`.
"""

from typing import Annotated, Any, Final, Literal
from uuid import UUID

from dagster import (
    DagsterEventType,
    InitResourceContext,
    InputContext,
    IOManager,
    MetadataValue,
    OutputContext,
    io_manager,
)
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from pramaan_pipelines.contracts.envelopes import MatterCreated
from pramaan_pipelines.contracts.outcomes import Outcome
from pramaan_pipelines.framer.claims import Claim, FrameRequest
from pramaan_pipelines.orchestration.failing import FailureReason, red
from pramaan_pipelines.orchestration.names import TAG_GATE, TAG_REASON

POINTERS: Final = "pointers"


class _Pointers(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Parsed(_Pointers):
    """An envelope that passed the first gate: ids and trace context."""

    kind: Literal["parsed"] = "parsed"
    envelope: MatterCreated
    receipt_handle: str


class Visit(_Pointers):
    """Whose frame is asked for, on its way through the gates.

    Attributes:
        event_id: of the message's envelope; None in a healing run.
        receipt_handle: of the message's delivery; None in a healing run.
    """

    kind: Literal["visit"] = "visit"
    firm_id: UUID
    matter_id: UUID
    event_id: UUID | None = None
    receipt_handle: str | None = None

    @property
    def request(self) -> FrameRequest:
        """The same, as the core asks for it."""
        return FrameRequest(self.firm_id, self.matter_id, self.event_id)


class Claimed(_Pointers):
    """A visit that won its claim."""

    kind: Literal["claimed"] = "claimed"
    visit: Visit
    agent_run_id: UUID
    generation: int

    @property
    def claim(self) -> Claim:
        """The same, as the core asks for it."""
        return Claim(self.visit.firm_id, self.visit.matter_id, self.agent_run_id, self.generation)


class Ended(_Pointers):
    """A visit that came to an acknowledged end, and at which gate."""

    kind: Literal["ended"] = "ended"
    visit: Visit
    outcome: Outcome
    gate: str


_ANY: Final[TypeAdapter[Parsed | Visit | Claimed | Ended]] = TypeAdapter(
    Annotated[Parsed | Visit | Claimed | Ended, Field(discriminator="kind")]
)


class PointerIOManager(IOManager):
    """Keeps values in memory, and their pointers in the event log."""

    def __init__(self) -> None:
        self._values: dict[tuple[object, ...], object] = {}

    def handle_output(self, context: OutputContext, obj: object) -> None:
        """Keep `obj`; nothing is kept of an op that says None."""
        if obj is None:
            return
        self._values[_key(context)] = obj
        if isinstance(obj, _Pointers):
            context.add_output_metadata({POINTERS: MetadataValue.text(obj.model_dump_json())})

    def load_input(self, context: InputContext) -> Any:
        """Return the value of this run, or read it from the run that is re-executed."""
        upstream = context.upstream_output
        if upstream is None:
            return None
        key = _key(upstream)
        if key in self._values:
            return self._values[key]
        for record in context.instance.all_logs(
            upstream.run_id, of_type=DagsterEventType.HANDLED_OUTPUT
        ):
            event = record.dagster_event
            if event is None or event.step_key != upstream.step_key:
                continue
            data: Any = event.event_specific_data
            found = data.metadata.get(POINTERS) if data.output_name == upstream.name else None
            if found is not None:
                return _ANY.validate_json(str(found.value))
        gate = context.op_def.name
        context.instance.add_run_tags(
            context.step_context.run_id,
            {TAG_REASON: str(FailureReason.OUTPUT_GONE), TAG_GATE: gate},
        )
        raise red(
            gate,
            FailureReason.OUTPUT_GONE,
            f"the output {upstream.name} of {upstream.step_key} is not in the event log any more",
            "Re-execute the whole run; every gate may be passed again",
        )


@io_manager(description="Values in the process; their ids in the event log.")
def pointer_io_manager(_: InitResourceContext) -> PointerIOManager:
    """Make one for a run."""
    return PointerIOManager()


def _key(context: OutputContext) -> tuple[object, ...]:
    return (context.run_id, context.step_key, context.name)
