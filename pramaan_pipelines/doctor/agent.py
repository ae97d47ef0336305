"""What doctor looks at in the agent runtime on Bedrock AgentCore, where one is chosen.

Promises: the runtime is where the settings say everything else is, and its endpoint is ready, as
far as this role may read it; what it may not read is said and is no fault.
Never: invokes the agent, or tells a word of the service's own.

Source: https://docs.aws.amazon.com/bedrock-agentcore-control/latest/APIReference/API_GetAgentRuntimeEndpoint.html
"""

from collections.abc import Iterator
from typing import Any, Final

from botocore.exceptions import ClientError

from pramaan_pipelines.doctor.check import WELL, Check, checked
from pramaan_pipelines.messaging.clients import agent_control_client
from pramaan_pipelines.messaging.faults import CALL_ERRORS, error_codes, short_code
from pramaan_pipelines.settings import Settings

NAME: Final = "agent runtime"
SERVING: Final = frozenset({"READY", "UPDATING"})
UNREAD: Final = (
    "in the right region; whether it is ready was not read: this role may not "
    "bedrock-agentcore:GetAgentRuntimeEndpoint, which the pipeline itself does not need"
)
LOOK: Final = "look at AGENT_RUNTIME_ARN and AGENT_RUNTIME_QUALIFIER"


def agent_check(settings: Settings) -> Check:
    """Look at the runtime of AGENT_RUNTIME_ARN; its form was checked when the settings were read.

    Args:
        settings: with PRAMAAN_AGENT=agentcore.
    """
    well = WELL

    def look() -> Iterator[str]:
        nonlocal well
        arn = settings.require("agent_runtime_arn")
        _, _, _, region, account, resource = arn.split(":")
        if region != settings.aws_region:
            yield (
                f"AGENT_RUNTIME_ARN is in {region} and AWS_REGION is {settings.aws_region}: a "
                "firm's matter would be framed in another region than the one it is kept in"
            )
            return
        try:
            found = agent_control_client(region=region).get_agent_runtime_endpoint(
                agentRuntimeId=resource.removeprefix("runtime/"),
                endpointName=settings.agent_runtime_qualifier,
            )
        except CALL_ERRORS as error:
            codes = error_codes(error) if isinstance(error, ClientError) else frozenset[str]()
            if "AccessDeniedException" in codes:
                well = UNREAD
                return
            yield _told(codes, error)
        else:
            yield from _endpoint_problems(found, account)

    check = checked(NAME, look)
    return Check(NAME, passed=True, told=well) if check.passed else check


def _endpoint_problems(found: dict[str, Any], account: str) -> Iterator[str]:
    if found["status"] not in SERVING:
        yield f"the runtime's endpoint is {found['status']}: every invoke fails until it is READY"
    # The call names the runtime by its id alone, which the credentials' account answers for.
    of = str(found["agentRuntimeArn"]).split(":")[4]
    if of != account:
        yield f"these credentials see account {of}, AGENT_RUNTIME_ARN is of {account}: {LOOK}"


def _told(codes: frozenset[str], error: Exception) -> str:
    if codes & {"ResourceNotFoundException", "ValidationException"}:
        return f"there is no such endpoint of such a runtime in this account: {LOOK}"
    code = short_code(min(codes)) if codes else type(error).__name__
    return (
        f"its endpoint could not be read ({code}): look at the network and the credentials, then "
        "run doctor again"
    )
