"""A stand-in for Bedrock AgentCore's data plane, built on botocore's own model of the service.

It takes a request apart by the model (path, query, headers, body), validates the members with
botocore's validator, and answers as the test says: an agent's bytes, whole or in pieces, or an
error of the model with its own status. What a real runtime would refuse, it refuses.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel
from botocore.validate import ParamValidator

ARN: Final = "arn:aws:bedrock-agentcore:eu-west-1:123456789012:runtime/vega_matter_frame-0123456789"
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
ENDPOINT: Final = "AWS_ENDPOINT_URL_BEDROCK_AGENTCORE"


def operation() -> OperationModel:
    """The model of InvokeAgentRuntime, as botocore ships it."""
    described = Loader().load_service_model("bedrock-agentcore", "service-2")
    return ServiceModel(described).operation_model("InvokeAgentRuntime")


@dataclass(frozen=True)
class Said:
    """What an agent answers.

    Attributes:
        pieces: the body, each piece sent by itself.
        content_type: of the body.
        pause: seconds before each piece.
        cut: end the connection with a reset instead of the last chunk.
        length: announce so many bytes instead of sending chunks.
    """

    pieces: Sequence[bytes]
    content_type: str = JSON
    pause: float = 0.0
    cut: bool = False
    length: int | None = None


@dataclass(frozen=True)
class Refused:
    """An error of the model, by name."""

    code: str
    message: str = "told by the stand-in"


Reply = Said | Refused
Agent = Callable[[dict[str, Any]], Reply]


def says(**status: object) -> Said:
    """A plain JSON answer."""
    return Said([json.dumps(status).encode()])


def events(*values: object, **more: Any) -> Said:
    """A stream of one event for each value."""
    pieces = [f"data: {json.dumps(value)}\n\n".encode() for value in values]
    return Said(pieces, EVENTS, **more)


@dataclass
class Runtime:
    """The stand-in: what it answers, and the members of each request that it took."""

    endpoint_url: str = ""
    agent: Agent = lambda _: says(status="done")
    requests: list[dict[str, Any]] = field(default_factory=list)
    _model: OperationModel = field(default_factory=operation)

    def take(self, path: str, headers: Any, body: bytes) -> Reply:
        """Take a request apart by the model, and ask the agent."""
        members = self._members(path, headers, body)
        if members is None:
            return Refused("ResourceNotFoundException")
        shape = self._model.input_shape
        assert shape is not None
        report = ParamValidator().validate(members, shape)
        if report.has_errors():
            return Refused("ValidationException", report.generate_report())
        self.requests.append(members)
        if members["agentRuntimeArn"] != ARN:
            return Refused("ResourceNotFoundException")
        return self.agent(members)

    def status_of(self, code: str) -> int:
        """Return the HTTP status of an error that the model names."""
        (shape,) = [shape for shape in self._model.error_shapes if shape.name == code]
        return int(shape.metadata["error"]["httpStatusCode"])

    def _members(self, path: str, headers: Any, body: bytes) -> dict[str, Any] | None:
        parts, query = urlsplit(path), parse_qs(urlsplit(path).query)
        before, after = self._model.http["requestUri"].split("{agentRuntimeArn}")
        if not (parts.path.startswith(before) and parts.path.endswith(after)):
            return None
        found: dict[str, Any] = {"payload": body}
        input_shape = self._model.input_shape
        members = {} if input_shape is None else input_shape.members
        for name, shape in members.items():
            where, wire = shape.serialization.get("location"), shape.serialization.get("name")
            if where == "header" and headers.get(wire) is not None:
                found[name] = headers[wire]
            elif where == "querystring" and wire in query:
                found[name] = query[wire][0]
            elif where == "uri":
                found[name] = unquote(parts.path[len(before) : -len(after)])
        return found


def _handler(runtime: Runtime) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = runtime.take(self.path, self.headers, body)
            if isinstance(reply, Refused):
                self._refuse(reply)
            else:
                self._say(reply)

        def _refuse(self, refused: Refused) -> None:
            out = json.dumps({"message": refused.message}).encode()
            self.send_response(runtime.status_of(refused.code))
            self.send_header("Content-Type", JSON)
            self.send_header("x-amzn-ErrorType", refused.code)
            self.send_header("Content-Length", str(len(out)))
            self.end_headers()
            self.wfile.write(out)

        def _say(self, said: Said) -> None:
            self.send_response(200)
            self.send_header("Content-Type", said.content_type)
            if said.length is None:
                self.send_header("Transfer-Encoding", "chunked")
            else:
                self.send_header("Content-Length", str(said.length))
            self.end_headers()
            for piece in said.pieces:
                time.sleep(said.pause)
                out = piece if said.length is not None else b"%x\r\n%s\r\n" % (len(piece), piece)
                self.wfile.write(out)
                self.wfile.flush()
            if said.cut:
                linger = struct.pack("ii", 1, 0)
                time.sleep(0.2)  # what was sent is to be read before the reset takes it away
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.close_connection = True
            elif said.length is None:
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.close_connection = True

    return Handler


@contextmanager
def agent_runtime() -> Iterator[Runtime]:
    """Run the stand-in while the block runs."""
    runtime = Runtime()

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """A client that has timed out and gone is part of the tests."""

    server = Server(("127.0.0.1", 0), _handler(runtime))
    runtime.endpoint_url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield runtime
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
