"""Looking at what the stack made, because two services stay silent about what is missing.

Promises: after `verify_provisioned`, bus, rule, target and all queues exist and are set as asked.
Never: changes anything. EventBridge answers success for a missing bus and drops events for a
missing target queue, so a wrong stack must be found here.
"""

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.faults import CALL_ERRORS, describe
from pramaan_pipelines.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_sqs import SQSClient

MAX_RECEIVES: Final = 3
QUEUE_SETTINGS: Final = (
    "DOCUMENT_INGESTION_QUEUE_URL",
    "DOCUMENT_REGISTRATION_QUEUE_URL",
    "FRAMER_EVENTS_QUEUE_URL",
)


def rule_name(environment: str) -> str:
    """Return the name of the rule that takes matter.created to the framer's queue."""
    return f"pramaan-matter-created-{environment}"


def verify_provisioned(
    settings: Settings,
    outputs: Mapping[str, str],
    *,
    visibility_timeout_seconds: int,
    patience_seconds: float = 0.0,
) -> None:
    """Check that everything exists and is set as asked.

    Args:
        settings: the environment's name, the region and the endpoint.
        outputs: the values of the settings that name queues and bus.
        visibility_timeout_seconds: what the three queues must have, in seconds.
        patience_seconds: how long a change just made may take to be seen.

    Raises:
        DestinationError: naming all that is missing or otherwise.
    """
    give_up = time.monotonic() + patience_seconds
    while True:
        problems = stack_problems(
            settings, outputs, visibility_timeout_seconds=visibility_timeout_seconds
        )
        if not problems:
            return
        if time.monotonic() >= give_up:
            raise DestinationError(
                "What was provisioned is not what was asked for: "
                + "; ".join(problems)
                + ". If somebody changed it by hand or at the same time, provision again; what was "
                "deleted by hand comes back only when the stack is deleted first."
            )
        time.sleep(min(2.0, patience_seconds))


def stack_problems(
    settings: Settings,
    outputs: Mapping[str, str],
    *,
    visibility_timeout_seconds: int | None = None,
    hidden_longer_than_seconds: int | None = None,
) -> list[str]:
    """Return what is missing or not as it should be; nothing where all is well.

    Args:
        settings: the environment's name, the region and the endpoint.
        outputs: the values of the settings that name queues and bus.
        visibility_timeout_seconds: what the three queues must have; None takes what they have.
        hidden_longer_than_seconds: what the framer queue's must exceed: a message that comes again
            while its job's lease holds is a delivery spent for nothing. None asks for nothing.
    """
    sqs, events = client("sqs", settings), client("events", settings)
    problems = [
        problem
        for name in QUEUE_SETTINGS
        for problem in _queue_problems(sqs, outputs[name], visibility_timeout_seconds)
    ]
    if hidden_longer_than_seconds is not None:
        problems += _hiding_problems(
            sqs, outputs["FRAMER_EVENTS_QUEUE_URL"], hidden_longer_than_seconds
        )
    return problems + _bus_problems(
        sqs,
        events,
        outputs["EVENT_BUS_NAME"],
        rule_name(settings.pramaan_environment),
        outputs["FRAMER_EVENTS_QUEUE_URL"],
    )


def route_problems(settings: Settings) -> list[str]:
    """Return what keeps matter.created from getting from the bus to the framer queue.

    EventBridge answers success for an event that no rule takes, and the event is gone.
    """
    return _bus_problems(
        client("sqs", settings),
        client("events", settings),
        settings.require("event_bus_name"),
        rule_name(settings.pramaan_environment),
        settings.require("framer_events_queue_url"),
    )


def _queue_problems(sqs: "SQSClient", url: str, visibility: int | None) -> list[str]:
    name = url.rsplit("/", 1)[-1]
    try:
        found = sqs.get_queue_attributes(
            QueueUrl=url, AttributeNames=["VisibilityTimeout", "RedrivePolicy"]
        )["Attributes"]
    except CALL_ERRORS as error:
        return [f"queue {name}: {describe(error)}"]
    problems = []
    if visibility is not None and found.get("VisibilityTimeout") != str(visibility):
        problems.append(
            f"queue {name} has visibility {found.get('VisibilityTimeout')} s, not {visibility} s"
        )
    policy = json.loads(found.get("RedrivePolicy", "{}"))
    if str(policy.get("maxReceiveCount")) != str(MAX_RECEIVES):
        problems.append(f"queue {name} does not redrive after {MAX_RECEIVES} receives")
    return problems + _missing_queue(sqs, str(policy.get("deadLetterTargetArn", "")))


def _hiding_problems(sqs: "SQSClient", url: str, lease: int) -> list[str]:
    name = url.rsplit("/", 1)[-1]
    try:
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
        hidden = int(found["Attributes"]["VisibilityTimeout"])
    except CALL_ERRORS:
        return []  # told of the queue already
    if hidden > lease:
        return []
    return [f"queue {name} hides a message for {hidden} s, no longer than a lease of {lease} s"]


def _missing_queue(sqs: "SQSClient", arn: str) -> list[str]:
    *_, account, name = ("", "", *arn.split(":"))
    try:
        sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)
    except CALL_ERRORS as error:
        return [f"queue {name or '(none named)'}: {describe(error)}"]
    return []


def _bus_problems(
    sqs: "SQSClient", events: "EventBridgeClient", bus: str, rule: str, framer_url: str
) -> list[str]:
    try:
        events.describe_event_bus(Name=bus)
        found = events.describe_rule(Name=rule, EventBusName=bus)
        targets = events.list_targets_by_rule(Rule=rule, EventBusName=bus)["Targets"]
        framer_arn = sqs.get_queue_attributes(QueueUrl=framer_url, AttributeNames=["QueueArn"])[
            "Attributes"
        ]["QueueArn"]
    except CALL_ERRORS as error:
        return [f"bus {bus} with rule {rule}: {describe(error)}"]
    problems = []
    if found.get("State") != "ENABLED":
        problems.append(f"rule {rule} is {found.get('State')}")
    wanted = json.loads(found.get("EventPattern", "{}")).get("detail-type", [])
    if EventType.MATTER_CREATED not in wanted:
        problems.append(f"rule {rule} does not take {EventType.MATTER_CREATED}")
    ours = [target for target in targets if target["Arn"] == framer_arn]
    if not ours:
        problems.append(f"rule {rule} has no target {framer_arn.rsplit(':', 1)[-1]}")
    for target in ours:
        problems += _missing_queue(sqs, target.get("DeadLetterConfig", {}).get("Arn", ""))
    return problems
