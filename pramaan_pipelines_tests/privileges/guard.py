"""The emulator with its identity layer on, and a guard before it that knows AWS's resources.

The emulator checks signatures, the identity's policy and the queues' own policies. It takes another
ARN than AWS for four calls (LOOSE), so for those it is given `*`, and the guard decides: by the
emulator's evaluator, over the resource that the Service Authorization Reference names.
"""

import json
import re
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, unquote

from ministack.core.iam_evaluator import EvalContext, evaluate, parse_policy_document

from pramaan_pipelines.local.aws import EmbeddedAws
from pramaan_pipelines_tests.support.proxy import Answer, HoldingProxy

Policy = dict[str, Any]
Call = tuple[str, str]
"""An action and the resource that it is on."""

RUNTIME: Final = re.compile(r"/runtimes/(?P<runtime>.+)/invocations\?qualifier=(?P<qualifier>\w+)")

LOOSE: Final = frozenset(
    {
        "events:DescribeEventBus",
        "events:DescribeRule",
        "events:ListTargetsByRule",
        "sqs:StartMessageMoveTask",
    }
)


class GuardedAws(EmbeddedAws):
    """The emulator as an account that refuses what is not allowed."""

    def _settings(self, port: int, scratch: str) -> dict[str, str]:
        return {**super()._settings(port, scratch), "AUTH": "true"}


def for_emulator(policy: Policy) -> str:
    """Return `policy` as the emulator reads it.

    The resources of the calls in LOOSE are left open. A batch goes by the right of its single call,
    which the emulator does not know:
    https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-api-permissions-reference.html
    """
    statements = []
    for statement in policy["Statement"]:
        named = statement["Action"]
        actions = [named] if isinstance(named, str) else list(named)
        if "sqs:SendMessage" in actions:
            actions.append("sqs:SendMessageBatch")
        loose = LOOSE & set(actions)
        resource = "*" if loose else statement["Resource"]
        statements.append({**statement, "Action": actions, "Resource": resource})
    return json.dumps({**policy, "Statement": statements})


@dataclass
class Seen:
    """What was asked for since the last look."""

    calls: set[Call] = field(default_factory=set)
    denied: set[Call] = field(default_factory=set)


class Guard(HoldingProxy):
    """Where TLS ends: forwards as over TLS, notes each call, and decides on those in LOOSE.

    Attributes:
        policy: of the identity that calls; None lets all pass.
        seen: what was asked for.
        tls: whether the calls came over TLS.
    """

    def __init__(self, upstream: str, account: str) -> None:
        super().__init__(upstream)
        self._account = account
        self.policy: Policy | None = None
        self.seen = Seen()
        self.tls = True

    @contextmanager
    def plain(self) -> Any:
        """Let the calls come without TLS while the block runs."""
        self.tls = False
        try:
            yield
        finally:
            self.tls = True

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        invoked = RUNTIME.fullmatch(unquote(path))
        if invoked:
            action, runtime = "bedrock-agentcore:InvokeAgentRuntime", invoked["runtime"]
            endpoint = f"{runtime}/runtime-endpoint/{invoked['qualifier']}"
            calls = {(action, runtime), (action, endpoint)}
        else:
            calls = calls_of(headers, body, self._account)
        self.seen.calls |= calls
        denied = {call for call in calls if call[0] in LOOSE and not self._allows(call)}
        if denied:
            self.seen.denied |= denied
            told = {"__type": "AccessDeniedException", "message": "not authorized to perform this"}
            return 400, [("Content-Type", "application/x-amz-json-1.1")], json.dumps(told).encode()
        scheme = "https" if self.tls else "http"
        answer = super().answer(method, path, {**headers, "X-Forwarded-Proto": scheme}, body)
        if answer[0] >= 400 and b"AccessDenied" in answer[2]:
            self.seen.denied |= calls
        return answer

    def _allows(self, call: Call) -> bool:
        if self.policy is None:
            return True
        action, resource = call
        context = EvalContext(
            principal_arn=f"arn:aws:iam::{self._account}:user/process",
            principal_type="User",
            principal_account=self._account,
            action=action,
            resource_arn=resource,
            region="us-east-1",
            secure_transport=self.tls,
        )
        found = evaluate(context, [parse_policy_document(self.policy)])
        return bool(found.decision == "Allow")


def calls_of(headers: Mapping[str, str], body: bytes, account: str) -> set[Call]:
    """Return what IAM is asked about a request: each action with its resource, by AWS's names."""
    at = f"us-east-1:{account}"
    service, _, operation = headers.get("X-Amz-Target", "").partition(".")
    if not operation:
        form = parse_qs(body.decode())
        action = form["Action"][0]
        if "StackName" not in form:
            return set()  # IAM's own calls, which the tests make
        name = form["StackName"][0]
        return {(f"cloudformation:{action}", f"arn:aws:cloudformation:{at}:stack/{name}/*")}
    given = json.loads(body)
    if service == "AmazonSQS":
        action = f"sqs:{operation.removesuffix('Batch')}"
        name = given.get("QueueName") or given.get("QueueUrl", "").rsplit("/", 1)[-1]
        return {(action, given.get("SourceArn") or f"arn:aws:sqs:{at}:{name}")}
    action = f"events:{operation}"
    if operation == "PutEvents":
        buses = {entry["EventBusName"] for entry in given["Entries"]}
        return {(action, f"arn:aws:events:{at}:event-bus/{bus}") for bus in buses}
    if operation == "DescribeEventBus":
        return {(action, f"arn:aws:events:{at}:event-bus/{given['Name']}")}
    rule = given.get("Rule") or given["Name"]
    return {(action, f"arn:aws:events:{at}:rule/{given['EventBusName']}/{rule}")}


def grants(policy: Policy) -> set[Call]:
    """Return each action of `policy` with each of its resources, what is denied left out."""
    return {
        (action, resource)
        for statement in policy["Statement"]
        if statement["Effect"] == "Allow"
        for action in statement["Action"]
        for resource in statement["Resource"]
    }


def without(policy: Policy, call: Call) -> Policy:
    """Return `policy` with one action taken from one resource."""
    action, resource = call
    statements: list[dict[str, Any]] = []
    for statement in policy["Statement"]:
        hit = action in statement["Action"] and resource in statement["Resource"]
        if statement["Effect"] != "Allow" or not hit:
            statements.append(statement)
            continue
        others = [each for each in statement["Action"] if each != action]
        elsewhere = [each for each in statement["Resource"] if each != resource]
        if others:
            statements.append({**statement, "Sid": f"{statement['Sid']}1", "Action": others})
        if elsewhere:
            statements.append(
                {
                    **statement,
                    "Sid": f"{statement['Sid']}2",
                    "Action": [action],
                    "Resource": elsewhere,
                }
            )
    return {**policy, "Statement": statements}
