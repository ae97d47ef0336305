"""The template and its provisioning, against the emulator."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import pytest
from botocore.stub import Stubber
from cfnlint.api import lint  # type: ignore[import-untyped]
from cfnlint.decode import cfn_yaml  # type: ignore[import-untyped]

from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.messaging import provision as provision_module
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.provision import OUTPUTS, provision, stack_name, template_body
from pramaan_pipelines.messaging.verification import verify_provisioned
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.support.aws import settings_for
from pramaan_pipelines_tests.support.stub import Stub, error

QUEUES = ("documents-ingestion", "documents-registration", "framer-events")


def template() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json.dumps(cfn_yaml.loads(template_body())))
    return loaded


def of_type(kind: str) -> dict[str, dict[str, Any]]:
    return {
        name: resource["Properties"]
        for name, resource in template()["Resources"].items()
        if resource["Type"] == kind
    }


def test_the_template_is_clean() -> None:
    assert [str(match) for match in lint(template_body())] == []


def test_the_template_is_package_data_and_names_no_account() -> None:
    text = files("pramaan_pipelines.messaging").joinpath("template.yaml").read_text("utf-8")
    assert text == template_body()
    assert not any(len(word) == 12 and word.isdigit() for word in text.replace(":", " ").split())


def test_every_queue_is_encrypted_and_only_tls_may_reach_it() -> None:
    queues, policies = of_type("AWS::SQS::Queue"), of_type("AWS::SQS::QueuePolicy")
    assert len(queues) == 7
    for name, queue in queues.items():
        assert queue["SqsManagedSseEnabled"] is True
        policy = policies[f"{name}Policy"]
        assert policy["Queues"] == [{"Ref": name}]
        statement = policy["PolicyDocument"]["Statement"][-1]
        assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
        assert statement["Action"] == "sqs:*"
        assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        assert statement["Resource"] == {"Fn::GetAtt": [name, "Arn"]}


def test_only_the_rule_may_send_to_the_framer_and_the_undeliverable_queue() -> None:
    allows = {
        name: statement
        for name, policy in of_type("AWS::SQS::QueuePolicy").items()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Allow"
    }
    assert allows.keys() == {"FramerEventsQueuePolicy", "UndeliverableEventsQueuePolicy"}
    for name, statement in allows.items():
        assert statement["Principal"] == {"Service": "events.amazonaws.com"}
        assert statement["Action"] == "sqs:SendMessage"
        assert statement["Resource"] == {"Fn::GetAtt": [name.removesuffix("Policy"), "Arn"]}
        assert statement["Condition"] == {
            "ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": ["MatterCreatedRule", "Arn"]}}
        }


def test_alarms_cover_depth_age_and_dead_letters() -> None:
    alarms = {
        (alarm["Dimensions"][0]["Value"]["Fn::GetAtt"][0], alarm["MetricName"])
        for alarm in of_type("AWS::CloudWatch::Alarm").values()
    }
    depth, age = "ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"
    wanted = {("UndeliverableEventsQueue", depth)}
    for lane in ("DocumentIngestion", "DocumentRegistration", "FramerEvents"):
        wanted |= {(f"{lane}Queue", depth), (f"{lane}Queue", age)}
        wanted |= {(f"{lane}DeadLetterQueue", depth)}
    assert alarms == wanted
    for alarm in of_type("AWS::CloudWatch::Alarm").values():
        assert alarm["AlarmActions"]["Fn::If"][0] == "HasAlarmTopic"


def test_parameters_have_the_contract_s_defaults() -> None:
    parameters = template()["Parameters"]
    assert parameters["VisibilityTimeoutSeconds"]["Default"] == 1320
    assert parameters["AlarmTopicArn"]["Default"] == ""


def test_it_makes_all_queues_the_bus_and_the_rule(bare: Settings, aws_environment: str) -> None:
    outputs = provision(bare)
    assert outputs.keys() == set(OUTPUTS.values())
    assert outputs["EVENT_BUS_NAME"] == "pramaan-events-test"
    sqs, events = client("sqs", bare), client("events", bare)
    prefix = f"arn:aws:sqs:us-east-1:{aws_environment}"
    for name in QUEUES:
        url = next(v for v in outputs.values() if v.endswith(f"/pramaan-{name}-test"))
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert found["VisibilityTimeout"] == "1320"
        assert json.loads(found["RedrivePolicy"]) == {
            "deadLetterTargetArn": f"{prefix}:pramaan-{name}-dlq-test",
            "maxReceiveCount": 3,
        }
        dead = sqs.get_queue_url(QueueName=f"pramaan-{name}-dlq-test")["QueueUrl"]
        kept = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["All"])["Attributes"]
        assert kept["MessageRetentionPeriod"] == str(14 * 86_400)
    rule = events.describe_rule(
        Name="pramaan-matter-created-test", EventBusName="pramaan-events-test"
    )
    assert json.loads(rule["EventPattern"]) == {"detail-type": ["matter.created"]}
    (target,) = events.list_targets_by_rule(
        Rule="pramaan-matter-created-test", EventBusName="pramaan-events-test"
    )["Targets"]
    assert target["DeadLetterConfig"]["Arn"].endswith(":pramaan-undeliverable-events-test")


def test_provisioning_twice_changes_nothing(bare: Settings) -> None:
    first = provision(bare)
    cloudformation = client("cloudformation", bare)
    events = cloudformation.describe_stack_events(StackName=stack_name("test"))["StackEvents"]
    assert provision(bare) == first
    again = cloudformation.describe_stack_events(StackName=stack_name("test"))["StackEvents"]
    assert len(again) == len(events)


def test_two_at_once_end_with_the_same_stack(bare: Settings) -> None:
    both = threading.Barrier(3)

    def one(_: int) -> dict[str, str]:
        both.wait(10)
        return provision(bare)

    with ThreadPoolExecutor(3) as pool:
        outputs = list(pool.map(one, range(3)))
    assert outputs[0] == outputs[1] == outputs[2]
    stacks = client("cloudformation", bare).describe_stacks()["Stacks"]
    assert [stack["StackName"] for stack in stacks] == [stack_name("test")]


def test_changed_visibility_reaches_the_queues_and_keeps_their_messages(bare: Settings) -> None:
    url = provision(bare)["FRAMER_EVENTS_QUEUE_URL"]
    sqs = client("sqs", bare)
    sqs.send_message(QueueUrl=url, MessageBody="kept")
    assert provision(bare, visibility_timeout_seconds=7)["FRAMER_EVENTS_QUEUE_URL"] == url
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert found["VisibilityTimeout"] == "7"
    assert found["ApproximateNumberOfMessages"] == "1"


def test_an_update_that_another_one_came_before_is_done_after_it(bare: Settings) -> None:
    """With AWS's own answers, for the emulator's updates are too short to be met."""
    cloudformation = client("cloudformation", bare)

    def in_state(status: str) -> dict[str, Any]:
        stack = {"StackName": "s", "StackStatus": status, "CreationTime": datetime.now(UTC)}
        return {"Stacks": [stack]}

    with Stubber(cloudformation) as aws:
        aws.add_response("describe_stacks", in_state("CREATE_COMPLETE"))
        aws.add_client_error(
            "update_stack",
            "ValidationError",
            "Stack:arn:aws:cloudformation:... is in UPDATE_IN_PROGRESS state and can not be "
            "updated.",
            http_status_code=400,
        )
        aws.add_response("describe_stacks", in_state("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"))
        aws.add_response("describe_stacks", in_state("UPDATE_COMPLETE"))
        aws.add_response("update_stack", {"StackId": "s"})
        aws.add_response("describe_stacks", in_state("UPDATE_IN_PROGRESS"))
        aws.add_response("describe_stacks", in_state("UPDATE_COMPLETE"))
        assert provision_module._Stack(cloudformation, "s").bring_up({"Environment": "test"})
        aws.assert_no_pending_responses()


def test_an_update_keeps_the_alarm_topic_that_it_was_not_given(bare: Settings) -> None:
    provision(bare)
    cloudformation = client("cloudformation", bare)
    topic = "arn:aws:sns:us-east-1:000000000000:alarms"
    cloudformation.update_stack(
        StackName=stack_name("test"),
        UsePreviousTemplate=True,
        Parameters=[
            {"ParameterKey": "Environment", "UsePreviousValue": True},
            {"ParameterKey": "AlarmTopicArn", "ParameterValue": topic},
        ],
    )
    provision(bare, visibility_timeout_seconds=9)
    (stack,) = cloudformation.describe_stacks(StackName=stack_name("test"))["Stacks"]
    values = {p["ParameterKey"]: p.get("ParameterValue") for p in stack["Parameters"]}
    assert values["AlarmTopicArn"] == topic


def test_a_queue_deleted_by_hand_is_found(bare: Settings) -> None:
    outputs = provision(bare)
    client("sqs", bare).delete_queue(QueueUrl=outputs["FRAMER_EVENTS_QUEUE_URL"])
    with pytest.raises(DestinationError, match="pramaan-framer-events-test"):
        provision(bare)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("bus", "pramaan-events-test"),
        ("target", "has no target pramaan-framer-events-test"),
        ("rule", "is DISABLED"),
        ("dead letters", "pramaan-documents-ingestion-dlq-test"),
        ("undeliverable", "pramaan-undeliverable-events-test"),
        ("visibility", "has visibility 1 s, not 1320 s"),
        ("redrive", "does not redrive after 3 receives"),
    ],
)
def test_verification_names_what_is_wrong(bare: Settings, harm: str, told: str) -> None:
    outputs = provision(bare)
    sqs, events = client("sqs", bare), client("events", bare)
    bus, rule = outputs["EVENT_BUS_NAME"], "pramaan-matter-created-test"
    url = outputs["DOCUMENT_INGESTION_QUEUE_URL"]

    def delete(name: str) -> None:
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=name)["QueueUrl"])

    match harm:
        case "bus":
            events.remove_targets(Rule=rule, EventBusName=bus, Ids=["framer-events"])
            events.delete_rule(Name=rule, EventBusName=bus)
            events.delete_event_bus(Name=bus)
        case "target":
            events.remove_targets(Rule=rule, EventBusName=bus, Ids=["framer-events"])
        case "rule":
            events.disable_rule(Name=rule, EventBusName=bus)
        case "dead letters":
            delete("pramaan-documents-ingestion-dlq-test")
        case "undeliverable":
            delete("pramaan-undeliverable-events-test")
        case "visibility":
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "1"})
        case "redrive":
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    with pytest.raises(DestinationError, match=told):
        verify_provisioned(bare, outputs, visibility_timeout_seconds=1320)


def test_a_failed_stack_names_the_resource_and_what_to_do(
    bare: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = template_body().replace("SqsManagedSseEnabled: true", "DelaySeconds: 99999", 1)
    monkeypatch.setattr(provision_module, "template_body", lambda: wrong)
    with pytest.raises(DestinationError, match="Stack pramaan-pipelines-test is in ") as failed:
        provision(bare)
    assert "failed: " in str(failed.value)
    assert "delete-stack --stack-name pramaan-pipelines-test" in str(failed.value)
    # It says the same again, instead of waiting or of starting over what cannot work.
    with pytest.raises(DestinationError, match="delete-stack"):
        provision(bare)


def test_a_failed_update_leaves_what_was_there(
    bare: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = provision(bare)
    wrong = template_body().replace("SqsManagedSseEnabled: true", "DelaySeconds: 99999", 1)
    with monkeypatch.context() as patched:
        patched.setattr(provision_module, "template_body", lambda: wrong)
        with pytest.raises(DestinationError, match="rolled back to what it was"):
            provision(bare, visibility_timeout_seconds=5)
    assert provision(bare, visibility_timeout_seconds=6) == outputs


def test_an_unreachable_service_is_told(stub: Stub) -> None:
    stub.behaviour = lambda _: error(500, "InternalFailure")
    with pytest.raises(DestinationError, match="Stack pramaan-pipelines-test"):
        provision(settings_for(stub.endpoint_url))
