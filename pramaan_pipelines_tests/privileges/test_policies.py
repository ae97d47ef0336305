"""The IAM policies: what each process calls is what it is granted, and each grant is needed."""

import json
from importlib.resources import files
from typing import Any
from uuid import uuid4

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from pramaan_pipelines.cli import main
from pramaan_pipelines.contracts.invoke import InvokePayload
from pramaan_pipelines.framer.agent import AgentRefusedError, AgentUnavailableError
from pramaan_pipelines.framer.agentcore import AgentCoreAgent
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.policies import Place, Process, policy
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.messaging.test_provision import of_type
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.privileges import roads
from pramaan_pipelines_tests.privileges.guard import Guard, Policy, grants, without
from pramaan_pipelines_tests.privileges.identity import Identity

PLACE = Place("test", "123456789012", "us-east-1")
FROM_A_STACK = [process for process in Process if process is not Process.PROVISIONER]
TYPES = (
    "AWS::SQS::Queue",
    "AWS::SQS::QueuePolicy",
    "AWS::Events::EventBus",
    "AWS::Events::Rule",
    "AWS::CloudWatch::Alarm",
)
NOT_OURS = {
    "iam:PassRole": "the rule has no role",
    "events:PutPermission": "the bus has no policy",
    "events:RemovePermission": "the bus has no policy",
}
"""What CloudFormation's handlers may call for properties that the template does not use."""

each_file = pytest.mark.parametrize("process", Process)


def by_cloudformation(granted: Policy) -> set[tuple[str, str]]:
    """Return the grants of a policy that hold only for CloudFormation's own calls."""
    via = [statement for statement in granted["Statement"] if "Condition" in statement]
    return grants({"Statement": via})


def direct(granted: Policy) -> set[tuple[str, str]]:
    return grants(granted) - by_cloudformation(granted) | grants(
        {"Statement": [each for each in granted["Statement"] if "Condition" not in each]}
    )


@each_file
def test_a_policy_is_small_and_names_no_place_and_no_wildcard(process: Process) -> None:
    text = files("pramaan_pipelines.messaging.policies").joinpath(f"{process}.json").read_text()
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html: managed, 6,144.
    assert len("".join(text.split())) < 6144 or process is Process.PROVISIONER
    assert not any(word.isdigit() and len(word) == 12 for word in text.replace(":", " ").split())
    filled = policy(process, PLACE)
    assert "${" not in json.dumps(filled)
    *allows, deny = filled["Statement"]
    assert {statement["Effect"] for statement in allows} == {"Allow"}
    for action, resource in grants(filled):
        assert "*" not in action
        assert "*" not in resource.removesuffix("/*") or "cloudformation" not in resource
        assert "-test" in resource
    assert deny == {
        "Sid": "OnlyTls",
        "Effect": "Deny",
        "Action": "*",
        "Resource": "*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def test_every_file_is_of_a_process() -> None:
    found = {path.name for path in files("pramaan_pipelines.messaging.policies").iterdir()}
    assert {f"{process}.json" for process in Process} == {
        name for name in found if name.endswith(".json")
    }


@pytest.mark.parametrize(
    ("region", "partition"),
    [("eu-west-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")],
)
def test_the_partition_is_the_region_s(region: str, partition: str) -> None:
    filled = policy(Process.METRICS, Place("test", "123456789012", region))
    assert {resource.split(":")[1] for _, resource in grants(filled)} == {partition}


@pytest.mark.parametrize("process", FROM_A_STACK)
def test_the_whole_road_is_gone_with_exactly_what_is_granted(
    rail: Rail, identity: Identity, guard: Guard, process: Process
) -> None:
    roads.prepare(rail)
    granted = identity.policy(process)
    with identity.acting(granted):
        roads.walk(process, rail)
    assert guard.seen.denied == set()
    assert guard.seen.calls == grants(granted)


def test_the_stack_is_made_and_changed_with_exactly_what_is_granted(
    empty: Settings, identity: Identity, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted = identity.policy(Process.PROVISIONER)
    with identity.acting(granted):
        roads.provisioner(empty, monkeypatch)
    assert guard.seen.denied == set()
    assert guard.seen.calls == direct(granted)


def test_cloudformation_may_do_what_its_handlers_call_and_nothing_else() -> None:
    """By the resource types' own schemas; the emulator asks no rights of CloudFormation."""
    granted = policy(Process.PROVISIONER, PLACE)
    called: set[str] = set()
    for kind in TYPES:
        assert of_type(kind)
        handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema["handlers"]
        for name in ("create", "read", "update", "delete"):
            called |= set(handlers.get(name, {}).get("permissions", ()))
    called = {action for action in called if not action.startswith("kms:")} - NOT_OURS.keys()
    assert {action for action, _ in by_cloudformation(granted)} == called
    for statement in granted["Statement"]:
        if "ByCloudFormation" in statement["Sid"]:
            assert statement["Condition"] == {
                "ForAnyValue:StringEquals": {"aws:CalledVia": ["cloudformation.amazonaws.com"]}
            }


def test_cloudformation_s_resources_are_those_of_the_template() -> None:
    granted = policy(Process.PROVISIONER, PLACE)
    named = {resource.rsplit(":", 1)[1] for _, resource in by_cloudformation(granted)}

    def name(resource: dict[str, Any], key: str) -> str:
        return str(resource[key]["Fn::Sub"]).replace("${Environment}", "test")

    queues = {key: name(queue, "QueueName") for key, queue in of_type("AWS::SQS::Queue").items()}
    wanted = set(queues.values()) | {"event-bus/pramaan-events-test"}
    wanted.add("rule/pramaan-events-test/pramaan-matter-created-test")
    for alarm in of_type("AWS::CloudWatch::Alarm").values():
        queue, _, suffix = alarm["AlarmName"]["Fn::Sub"][2:].partition(".QueueName}")
        wanted.add(queues[queue] + suffix)
    assert named == wanted


@pytest.mark.long
@pytest.mark.parametrize("process", FROM_A_STACK)
@pytest.mark.usefixtures("no_pause")
def test_with_any_one_grant_less_the_road_is_not_gone(
    rail: Rail, identity: Identity, guard: Guard, process: Process
) -> None:
    granted = identity.policy(process)
    unneeded = []
    for grant in sorted(grants(granted)):
        roads.prepare(rail)
        with identity.acting(without(granted, grant)):
            if not _fails(lambda: roads.walk(process, rail)):
                unneeded.append(grant)
        assert guard.seen.denied == {grant}
    assert unneeded == []


@pytest.mark.long
def test_with_any_one_grant_less_the_stack_is_not_made(
    empty: Settings, identity: Identity, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted = identity.policy(Process.PROVISIONER)
    unneeded = []
    for grant in sorted(direct(granted)):
        reduced = without_direct(granted, grant)
        with identity.acting(reduced):
            if not _fails(lambda: roads.provisioner(empty, monkeypatch)):
                unneeded.append(grant)
        assert guard.seen.denied == {grant}
        client("cloudformation", empty).delete_stack(StackName="pramaan-pipelines-test")
    assert unneeded == []


def without_direct(granted: Policy, grant: tuple[str, str]) -> Policy:
    """Take a grant from what the process calls itself; the emulator knows no `aws:CalledVia`."""
    statements = [each for each in granted["Statement"] if "ByCloudFormation" not in each["Sid"]]
    return without({**granted, "Statement": statements}, grant)


def _fails(walk: Any) -> bool:
    try:
        walk()
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - however the step tells it
        return True
    return False


@pytest.mark.parametrize("process", FROM_A_STACK)
def test_without_tls_nothing_is_answered(
    rail: Rail, identity: Identity, guard: Guard, process: Process
) -> None:
    granted = identity.policy(process)
    with identity.acting(granted), guard.plain(), pytest.raises(AssertionError):
        roads.watch(rail)
    assert guard.seen.denied == guard.seen.calls != set()
    # The queues refuse it by their own policies too; the bus cannot, and relies on this one.
    bus = {**granted, "Statement": granted["Statement"][:-1]}
    events = client("events", rail.settings)
    if process is Process.METRICS:
        return
    name = rail.settings.require("event_bus_name")
    with identity.acting(granted), guard.plain():
        events = client("events", rail.settings)
        with pytest.raises(events.exceptions.ClientError, match="AccessDenied"):
            events.describe_event_bus(Name=name)
    with identity.acting(bus), guard.plain():
        assert client("events", rail.settings).describe_event_bus(Name=name)["Arn"]


def test_a_queue_refuses_its_own_account_s_root_without_tls(rail: Rail, guard: Guard) -> None:
    sqs = client("sqs", rail.settings)
    urls = sqs.list_queues()["QueueUrls"]
    assert len(urls) == 7
    for url in urls:
        assert sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
        with guard.plain(), pytest.raises(sqs.exceptions.ClientError, match="denied"):
            sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])


@pytest.mark.usefixtures("configured")
@each_file
def test_the_command_prints_the_policy_of_this_place(
    process: Process, aws_environment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["policies", process]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == policy(process, Place("test", aws_environment, "us-east-1"))


def test_the_account_is_asked_for_where_nothing_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRAMAAN_ENVIRONMENT", "test")
    monkeypatch.setenv("DATABASE_URL", "postgresql://unused")
    assert main(["policies", "provisioner"]) == 1
    assert "--account" in capsys.readouterr().err
    assert main(["policies", "provisioner", "--account", "12345678901"]) == 1
    assert main(["policies", "provisioner", "--account", "123456789012"]) == 0
    assert "123456789012:stack/pramaan-pipelines-test/*" in capsys.readouterr().out


def test_the_agent_is_invoked_with_the_runtime_and_its_endpoint_granted_and_no_other(
    configured: Settings, identity: Identity, guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulator has no such runtime; that it says so is past what it checks first."""
    runtime = f"arn:aws:bedrock-agentcore:us-east-1:{identity.place.account}:runtime/framer-a"
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_AGENTCORE", guard.url)
    settings = configured.model_copy(update={"agent_runtime_arn": runtime})
    identity.place = Place.of(settings, None)
    granted = identity.policy(Process.CODE_LOCATION)
    of_agent = {grant for grant in grants(granted) if grant[0].startswith("bedrock-agentcore:")}
    assert of_agent == {
        ("bedrock-agentcore:InvokeAgentRuntime", runtime),
        ("bedrock-agentcore:InvokeAgentRuntime", f"{runtime}/runtime-endpoint/DEFAULT"),
    }
    payload = InvokePayload(
        firm_id=uuid4(), matter_id=uuid4(), agent_run_id=uuid4(), traceparent=None, tracestate=None
    )
    with (
        identity.acting(granted),
        pytest.raises((AgentRefusedError, AgentUnavailableError), match="ResourceNotFound"),
    ):
        AgentCoreAgent.from_settings(settings).invoke(payload)
    assert guard.seen.calls == of_agent
    for grant in of_agent:
        with (
            identity.acting(without(granted, grant)),
            pytest.raises(AgentRefusedError, match="AccessDenied"),
        ):
            AgentCoreAgent.from_settings(settings).invoke(payload)


def test_without_an_agent_s_runtime_none_may_be_invoked() -> None:
    for process in Process:
        assert "bedrock" not in json.dumps(policy(process, PLACE))
