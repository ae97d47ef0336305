"""What an agent says, read from the bytes of its answer.

Promises: one JSON object, or a stream of server-sent events whose words count as they come; a
bounded number of bytes is held, whatever is sent.
Never: keeps, logs or tells a word of an answer; an agent's answer is content.

The agent's side of the contract: an object {"status": "done" | "accepted" | "failed"}, which may
repeat "agent_run_id" and may hold anything else. In a stream it is the data of one event; other
events are the agent's own business.

Source of the framing: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final
from uuid import UUID

from pramaan_pipelines.contracts.invoke import InvokeAnswer
from pramaan_pipelines.framer.agent import AgentRefusedError, AgentUnavailableError

MAX_OBJECT_BYTES: Final = 64 * 1024
"""Of a status; an agent's frame goes where frames are kept, not into this answer."""
MAX_STREAM_BYTES: Final = 4 * 1024 * 1024
"""Of all that an agent may say on the way to its status."""

_EVENT_STREAM: Final = "text/event-stream"
_HINT: Final = "See docs/agent.md for what an agent answers"


def read_answer(content_type: str, chunks: Iterable[bytes], agent_run_id: UUID) -> InvokeAnswer:
    """Return what the agent said of the run `agent_run_id`.

    A stream is left at its first last word (done, failed). An agent that said "accepted" has taken
    the run on, whatever becomes of the rest of its stream.

    Args:
        content_type: the answer's; a stream of events or anything else, which is read as JSON.
        chunks: its bytes, as they come; may raise AgentUnavailableError when it is cut.
        agent_run_id: what was asked for.

    Raises:
        AgentRefusedError: it failed, or said nothing that the contract knows.
        AgentUnavailableError: the answer was cut before it said anything.
    """
    if content_type.partition(";")[0].strip().lower() != _EVENT_STREAM:
        return _known(_object(_whole(chunks)), agent_run_id)
    accepted = False
    try:
        for event in _events(chunks):
            said = _object_or_none(event)
            # An agent's framework may send every key with each event, empty.
            if said is None or (said.get("status"), said.get("error")) == (None, None):
                continue
            if _known(said, agent_run_id) is InvokeAnswer.DONE:
                return InvokeAnswer.DONE
            accepted = True
    except AgentUnavailableError:
        if not accepted:
            raise
    if accepted:
        return InvokeAnswer.ACCEPTED
    raise AgentRefusedError(f"the agent's stream ended without a status. {_HINT}")


def _known(said: dict[str, Any], agent_run_id: UUID) -> InvokeAnswer:
    if said.get("agent_run_id", str(agent_run_id)) != str(agent_run_id):
        raise AgentRefusedError(
            "the agent answered for another agent_run_id than it was asked for: look at how it "
            "keeps its sessions apart before it is invoked again"
        )
    status = said.get("status")
    if isinstance(status, str) and status in set(InvokeAnswer):
        return InvokeAnswer(status)
    if status == "failed" or said.get("error") is not None:
        raise AgentRefusedError("the agent says that it failed: its own log says why")
    raise AgentRefusedError(f"the agent answered without a status that is known. {_HINT}")


def _whole(chunks: Iterable[bytes]) -> bytes:
    held = bytearray()
    for chunk in chunks:
        held += chunk
        if len(held) > MAX_OBJECT_BYTES:
            raise AgentRefusedError(f"the agent's answer is over {MAX_OBJECT_BYTES} bytes. {_HINT}")
    return bytes(held)


def _object(text: bytes) -> dict[str, Any]:
    said = _object_or_none(text)
    if said is None:
        raise AgentRefusedError(f"the agent's answer is no JSON object. {_HINT}")
    return said


def _object_or_none(text: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _events(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data of each event; of one that is too large to be a status, a part."""
    held, total = b"", 0
    for chunk in chunks:
        total += len(chunk)
        if total > MAX_STREAM_BYTES:
            raise AgentRefusedError(
                f"the agent's stream is over {MAX_STREAM_BYTES} bytes without a last word. {_HINT}"
            )
        *whole, held = (held + chunk.replace(b"\r", b"")).split(b"\n\n")
        yield from map(_data, filter(None, whole))
        if len(held) > MAX_OBJECT_BYTES:
            # Its last byte may be the first half of its end.
            held = held[:MAX_OBJECT_BYTES] + held[-1:]
    # What stands after the last blank line is an event only where the stream ended well.
    yield _data(held)


def _data(event: bytes) -> bytes:
    lines = [line for line in event.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(line.removeprefix(b"data:").removeprefix(b" ") for line in lines)
