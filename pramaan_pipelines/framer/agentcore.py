"""The agent on Bedrock AgentCore, by InvokeAgentRuntime.

Promises: the call ends within its bound, whatever the runtime sends or does not send; the session
belongs to one agent run, so that no two firms and no two runs share one; what goes wrong is told
by its code, and as worth another try or not.
Never: logs, keeps or tells a word of the agent's, of a service's error text, or of the payload.

The API has no idempotency of its own: its token names the session. The agent dedupes by the
agent_run_id in the payload.

Source: https://docs.aws.amazon.com/bedrock-agentcore/latest/APIReference/API_InvokeAgentRuntime.html
"""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Any, Final, Self, TypeVar
from uuid import UUID

from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from pramaan_pipelines.contracts.invoke import InvokeAnswer, InvokePayload
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.framer.agent import AgentRefusedError, AgentUnavailableError
from pramaan_pipelines.framer.agent_answer import read_answer
from pramaan_pipelines.messaging.clients import agent_client
from pramaan_pipelines.messaging.faults import CALL_ERRORS, error_codes, short_code
from pramaan_pipelines.settings import Settings

LOGGER = logging.getLogger(__name__)

LASTING: Final = {
    "AccessDeniedException": "allow this service's role bedrock-agentcore:InvokeAgentRuntime",
    "ResourceNotFoundException": "look at AGENT_RUNTIME_ARN and AGENT_RUNTIME_QUALIFIER",
    "ValidationException": "look at AGENT_RUNTIME_ARN and AGENT_RUNTIME_QUALIFIER",
    "ParamValidationError": "look at AGENT_RUNTIME_ARN and AGENT_RUNTIME_QUALIFIER",
    "UnrecognizedClientException": "look at this service's credentials",
    "InvalidSignatureException": "look at this service's credentials and its clock",
    "ExpiredTokenException": "look at this service's credentials",
    "NoCredentialsError": "give this service credentials",
}
"""What no try in the next seconds mends, and what does. Everything else is tried again."""

_CHUNK: Final = 16 * 1024
_T = TypeVar("_T")


class AgentCoreAgent:
    """Invokes one runtime.

    Args:
        client: of `bedrock-agentcore`.
        runtime_arn: which runtime.
        qualifier: which of its endpoints.
        seconds: bound of the whole call, from the connection to the last byte.
    """

    def __init__(self, client: Any, runtime_arn: str, qualifier: str, seconds: float) -> None:
        self._client = client
        self._runtime_arn = runtime_arn
        self._qualifier = qualifier
        self._seconds = seconds

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Make it of AGENT_RUNTIME_ARN and its neighbours.

        Raises:
            SettingsError: AGENT_RUNTIME_ARN is not set.
        """
        arn = settings.require("agent_runtime_arn")
        client = agent_client(region=arn.split(":")[3], read_seconds=settings.agent_timeout_seconds)
        return cls(client, arn, settings.agent_runtime_qualifier, settings.agent_timeout_seconds)

    def invoke(self, payload: InvokePayload) -> InvokeAnswer:
        """Hand over `payload`, and wait for the agent's word within the bound."""
        try:
            answer = _within(self._seconds, lambda: self._call(payload))
        except TimeoutError:
            raise AgentUnavailableError(
                f"the agent runtime gave no whole answer within {self._seconds:g} s "
                "(AGENT_TIMEOUT_SECONDS): an agent that works for longer answers 'accepted'"
            ) from None
        LOGGER.info("agent invoked agent_run_id=%s answer=%s", payload.agent_run_id, answer)
        return answer

    def _call(self, payload: InvokePayload) -> InvokeAnswer:
        try:
            reply = self._client.invoke_agent_runtime(
                agentRuntimeArn=self._runtime_arn,
                qualifier=self._qualifier,
                runtimeSessionId=session_id(payload.agent_run_id),
                contentType="application/json",
                accept="application/json, text/event-stream",
                payload=payload.model_dump_json().encode(),
                **trace_members(TraceContext.of(payload.traceparent, payload.tracestate)),
            )
        except CALL_ERRORS as error:
            raise _told(error) from None
        chunks = _chunks(reply["response"])
        try:
            return read_answer(str(reply.get("contentType", "")), chunks, payload.agent_run_id)
        finally:
            reply["response"].close()


def session_id(agent_run_id: UUID) -> str:
    """Return the runtime session of an agent run; the API takes 33 to 100 characters."""
    return f"pramaan-frame-{agent_run_id}"


def trace_members(trace: TraceContext) -> dict[str, str]:
    """Return the API's trace members: W3C's two, and X-Ray's, which AWS itself goes by."""
    if trace.traceparent is None:
        return {}
    _, trace_id, span_id, flags = trace.traceparent.split("-")[:4]
    sampled = int(flags, 16) & 1
    members = {
        "traceParent": trace.traceparent,
        "traceId": f"Root=1-{trace_id[:8]}-{trace_id[8:]};Parent={span_id};Sampled={sampled}",
    }
    return members if trace.tracestate is None else members | {"traceState": trace.tracestate}


def _chunks(body: Any) -> Iterator[bytes]:
    """Yield what has come, without waiting for a buffer to be full."""
    with body as raw:
        try:
            while chunk := raw.read1(_CHUNK):
                yield chunk
        except (HTTPError, BotoCoreError, OSError) as error:
            raise AgentUnavailableError(
                f"the agent runtime's answer was cut ({type(error).__name__})"
            ) from None


def _told(error: Exception) -> AgentRefusedError | AgentUnavailableError:
    """Tell a failed call by its code; the service's text may hold the agent's words."""
    if isinstance(error, ClientError):
        codes = error_codes(error) or frozenset({"Unknown"})
    else:
        codes = frozenset({type(error).__name__})
    code = short_code(min(codes))
    for known in codes & LASTING.keys():
        return AgentRefusedError(f"the agent runtime refused the call ({known}): {LASTING[known]}")
    return AgentUnavailableError(f"the agent runtime did not take the call ({code})")


def _within(seconds: float, call: Callable[[], _T]) -> _T:
    """Return what `call` returns.

    A socket's time-out bounds one read; a runtime that sends a byte now and then would hold the run
    for ever. The thread that is left behind holds nothing but its socket, and ends with the run.

    Raises:
        TimeoutError: it takes longer than `seconds`.
    """
    future: Future[_T] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - handed to the one who waits
            future.set_exception(error)

    Thread(target=work, name="agent-invoke", daemon=True).start()
    return future.result(timeout=seconds)
