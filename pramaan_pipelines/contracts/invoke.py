"""What the agent runtime receives, and what it answers.

Promises: the payload has exactly the five keys of EB-02.
Never: carries anything but ids and trace context.
"""

from enum import StrEnum
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

FRAME_AGENT_KEY: Literal["vega_matter_frame"] = "vega_matter_frame"


class InvokePayload(BaseModel):
    """EB-02: the agent dedupes by `agent_run_id`, which proves that the run row was committed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    firm_id: UUID
    matter_id: UUID
    agent_run_id: UUID
    traceparent: str | None
    tracestate: str | None


class InvokeAnswer(StrEnum):
    """What the runtime said: the frame is built, or will be (H10: the latter releases nothing)."""

    DONE = "done"
    ACCEPTED = "accepted"
