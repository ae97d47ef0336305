"""The one seam to the agent runtime.

Promises: the runtime gets exactly the five keys of EB-02, after the run row was committed; an
invoke may be repeated with the same agent_run_id, by which the agent dedupes.
Never: is reached from anywhere else.
"""

import logging
from typing import Protocol

from pramaan_pipelines.contracts.invoke import InvokeAnswer, InvokePayload
from pramaan_pipelines.errors import PramaanError
from pramaan_pipelines.telemetry.logs import log_fields

LOGGER = logging.getLogger(__name__)


class AgentUnavailableError(PramaanError):
    """The runtime did not answer, or not to the end; whether it began is unknown.

    It is asked again with the same agent_run_id. Its text holds codes and bounds, never a word of
    the agent's.
    """


class AgentRefusedError(PramaanError):
    """The runtime answered, and asking again in a few seconds would bring the same answer.

    Its text holds codes and bounds, never a word of the agent's.
    """


class AgentInvoker(Protocol):
    """Something that builds a matter's frame when asked to."""

    def invoke(self, payload: InvokePayload) -> InvokeAnswer:
        """Hand over `payload`.

        Returns:
            DONE when the frame is built, ACCEPTED when the runtime will report it later.

        Raises:
            AgentUnavailableError: worth another try with the same payload.
            AgentRefusedError: not worth one.
        """
        ...


class LoggingAgent:
    """The stub: says that it was called, and answers that the work is done."""

    def invoke(self, payload: InvokePayload) -> InvokeAnswer:
        """Log the run's id and the trace context that it was given, nothing else of the payload."""
        log_fields(
            LOGGER,
            logging.INFO,
            {
                "message": "agent stub invoked",
                "agent_run_id": str(payload.agent_run_id),
                "traceparent": str(payload.traceparent),
            },
        )
        return InvokeAnswer.DONE
