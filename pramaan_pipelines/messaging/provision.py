"""Creating or updating the stack of `template.yaml`, in a real account or in the emulator.

Promises: idempotent, also when two do it at once; what is returned was looked at after the stack
said it was done; a failed stack is told with the resource that failed and what to do.
Never: deletes a stack, or changes a parameter that it was not given.
"""

import time
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from botocore.exceptions import ClientError

from pramaan_pipelines.contracts.text import safe_text
from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.faults import CALL_ERRORS, describe, error_codes
from pramaan_pipelines.messaging.verification import stack_problems, verify_provisioned
from pramaan_pipelines.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_cloudformation.type_defs import (
        ParameterTypeDef,
        StackEventTypeDef,
        StackTypeDef,
    )

DEFAULT_VISIBILITY_SECONDS: Final = 1320
STACK_SECONDS: Final = 900.0
"""How long an operation on the stack may take, ours and those we wait for together."""
PROPAGATION_SECONDS: Final = 60.0
"""SQS's own bound for a changed attribute to be seen everywhere.

Source: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html
"""

OUTPUTS: Final = {
    "DocumentIngestionQueueUrl": "DOCUMENT_INGESTION_QUEUE_URL",
    "DocumentRegistrationQueueUrl": "DOCUMENT_REGISTRATION_QUEUE_URL",
    "FramerEventsQueueUrl": "FRAMER_EVENTS_QUEUE_URL",
    "EventBusName": "EVENT_BUS_NAME",
}
"""The template's outputs, and the settings that they are the values of."""

_GOOD: Final = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}
_UPDATABLE: Final = _GOOD | {"UPDATE_ROLLBACK_COMPLETE", "IMPORT_ROLLBACK_COMPLETE"}
_POLL_SECONDS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def stack_name(environment: str) -> str:
    """Return the name of the environment's stack."""
    return f"pramaan-pipelines-{environment}"


def template_body() -> str:
    """Return the text of the CloudFormation template that this package carries."""
    return files("pramaan_pipelines.messaging").joinpath("template.yaml").read_text("utf-8")


def provision(
    settings: Settings, *, visibility_timeout_seconds: int = DEFAULT_VISIBILITY_SECONDS
) -> dict[str, str]:
    """Create or update the environment's queues, bus, rule and alarms, and verify them.

    Args:
        settings: the environment's name, the region and the endpoint.
        visibility_timeout_seconds: of the three queues, in seconds.

    Returns:
        The value of each setting in `OUTPUTS`.

    Raises:
        DestinationError: CloudFormation cannot be reached, the stack failed, or what it made is not
            what was asked for.
    """
    stack = _Stack(client("cloudformation", settings), stack_name(settings.pramaan_environment))
    try:
        changed = stack.bring_up(
            {
                "Environment": settings.pramaan_environment,
                "VisibilityTimeoutSeconds": str(visibility_timeout_seconds),
            }
        )
        outputs = stack.outputs()
    except CALL_ERRORS as error:
        raise DestinationError(
            f"Stack {stack.name}: {describe(error)}. Check the region, the endpoint and the "
            "permissions of the credentials in the environment, then provision again."
        ) from None
    verify_provisioned(
        settings,
        outputs,
        visibility_timeout_seconds=visibility_timeout_seconds,
        patience_seconds=PROPAGATION_SECONDS if changed else 0.0,
    )
    return outputs


def resolve(settings: Settings) -> dict[str, str]:
    """Return what the environment's stack made, without changing anything.

    Returns:
        The value of each setting in `OUTPUTS`.

    Raises:
        DestinationError: there is no such stack, or something of it is missing.
    """
    stack = _Stack(client("cloudformation", settings), stack_name(settings.pramaan_environment))
    try:
        outputs = stack.outputs() if stack.exists() else None
    except CALL_ERRORS as error:
        raise DestinationError(
            f"Stack {stack.name}: {describe(error)}. Check the region, the endpoint and the "
            "credentials in the environment."
        ) from None
    if outputs is None:
        raise DestinationError(f"There is no stack {stack.name}: `pramaan provision` makes it.")
    problems = stack_problems(settings, outputs)
    if problems:
        raise DestinationError(
            f"Stack {stack.name} is there, but not all of it: {'; '.join(problems)}. Provision it "
            "again; what was deleted by hand comes back only when the stack is deleted first."
        )
    return outputs


class _Stack:
    """One stack, and what others may be doing to it meanwhile."""

    def __init__(self, cloudformation: "CloudFormationClient", name: str) -> None:
        self.name = name
        self._client = cloudformation
        self._deadline = time.monotonic() + STACK_SECONDS

    def bring_up(self, parameters: dict[str, str]) -> bool:
        """Create or update the stack; return whether anything changed.

        Each round looks at the stack's state anew, because someone else may be provisioning too:
        that their operation came first is an answer, and the next round does what is then left.
        """
        for _ in self._polls():
            found = self._settled()
            started = self._create(parameters) if found is None else self._update(found, parameters)
            if started is None:
                continue
            if started:
                self._require_good()
            return started
        raise AssertionError("unreachable: _polls ends by raising")

    def exists(self) -> bool:
        """Tell whether there is a stack of this name."""
        return self._describe() is not None

    def outputs(self) -> dict[str, str]:
        """Return the stack's outputs under the names of the settings."""
        found = self._describe()
        named = {
            item.get("OutputKey", ""): item.get("OutputValue", "")
            for item in (found["Outputs"] if found and "Outputs" in found else [])
        }
        missing = sorted(OUTPUTS.keys() - named.keys())
        if missing:
            raise DestinationError(
                f"Stack {self.name} has no output {', '.join(missing)}. Another template may bear "
                "its name: look at it, and choose another PRAMAAN_ENVIRONMENT if so."
            )
        return {setting: named[key] for key, setting in OUTPUTS.items()}

    def _create(self, parameters: dict[str, str]) -> bool | None:
        try:
            self._client.create_stack(
                StackName=self.name,
                TemplateBody=template_body(),
                Parameters=[
                    {"ParameterKey": key, "ParameterValue": value}
                    for key, value in parameters.items()
                ],
            )
        except ClientError as error:
            if error_codes(error) & {"AlreadyExistsException", "AlreadyExists"}:
                return None
            raise
        return True

    def _update(self, found: "StackTypeDef", parameters: dict[str, str]) -> bool | None:
        status = found["StackStatus"]
        if status not in _UPDATABLE:
            raise self._failed(status)
        kept: list[ParameterTypeDef] = [
            {"ParameterKey": key, "UsePreviousValue": True}
            for key in (item.get("ParameterKey", "") for item in found.get("Parameters", []))
            if key not in parameters
        ]
        given: list[ParameterTypeDef] = [
            {"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()
        ]
        try:
            self._client.update_stack(
                StackName=self.name, TemplateBody=template_body(), Parameters=[*given, *kept]
            )
        except ClientError as error:
            # CloudFormation has one code for all of these; only the text tells them apart.
            text = str(error.response.get("Error", {}).get("Message", ""))
            if "No updates are to be performed" in text:
                if status not in _GOOD:
                    raise self._failed(status) from None
                return False
            if "_IN_PROGRESS" in text or "does not exist" in text:
                return None
            raise
        return True

    def _require_good(self) -> None:
        found = self._settled()
        status = found["StackStatus"] if found else "DELETED"
        if status not in _GOOD:
            raise self._failed(status)

    def _settled(self) -> "StackTypeDef | None":
        """Return the stack once nothing is under way on it, or None when there is none.

        botocore's waiters each wait for one operation and fail on any other; here it may be
        somebody else's.
        """
        for _ in self._polls():
            found = self._describe()
            status = found["StackStatus"] if found else "DELETE_COMPLETE"
            if status == "DELETE_COMPLETE":
                return None
            if status == "REVIEW_IN_PROGRESS" or not status.endswith("_IN_PROGRESS"):
                return found
        raise AssertionError("unreachable: _polls ends by raising")

    def _describe(self) -> "StackTypeDef | None":
        try:
            return self._client.describe_stacks(StackName=self.name)["Stacks"][0]
        except ClientError as error:
            if "does not exist" in str(error.response.get("Error", {}).get("Message", "")):
                return None
            raise

    def _polls(self) -> Iterator[None]:
        for turn in range(10_000_000):
            if time.monotonic() >= self._deadline:
                raise DestinationError(
                    f"Stack {self.name} was still busy after {STACK_SECONDS:.0f} s. Look at its "
                    "events in CloudFormation, and provision again when it is at rest."
                )
            yield
            time.sleep(_POLL_SECONDS[min(turn, len(_POLL_SECONDS) - 1)])

    def _failed(self, status: str) -> DestinationError:
        return DestinationError(
            f"Stack {self.name} is in {status}. {self._first_failure()}{_advice(status, self.name)}"
        )

    def _first_failure(self) -> str:
        """Return what failed first in the stack's last operation: the rest follows from it."""
        try:
            events = self._client.describe_stack_events(StackName=self.name)["StackEvents"]
        except CALL_ERRORS:
            return ""
        failure: StackEventTypeDef | None = None
        for event in events:  # newest first
            status = event.get("ResourceStatus", "")
            own = event.get("PhysicalResourceId") == event["StackId"]
            if own and status in {"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"}:
                break
            if not own and status.endswith("_FAILED"):
                failure = event
        if failure is None:
            return ""
        return (
            f"{failure.get('LogicalResourceId')} ({failure.get('ResourceType')}) failed: "
            f"{safe_text(failure.get('ResourceStatusReason', 'no reason given'))}. "
        )


def _advice(status: str, name: str) -> str:
    if status == "UPDATE_ROLLBACK_FAILED":
        return (
            "Mend the cause, run `aws cloudformation continue-update-rollback --stack-name "
            f"{name}`, then provision again."
        )
    if status in _UPDATABLE:
        return "It was rolled back to what it was before. Mend the cause, then provision again."
    return (
        "It cannot be updated. Mend the cause, delete the stack (`aws cloudformation delete-stack "
        f"--stack-name {name}`; its queues and their messages go with it), then provision again."
    )
