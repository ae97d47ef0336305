"""The AWS rights of each process: one IAM policy a file, filled in for one place.

Promises: each policy grants what its process calls and nothing else, on this environment's own
queues, bus, rule, alarms and stack, and only over TLS. The names are those of `template.yaml`.
Never: grants by wildcard; holds an account, a region or an environment.

Source: https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
"""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Any, Final

from pramaan_pipelines.errors import SettingsError
from pramaan_pipelines.settings import Settings

_NONE: Final = "none"
_ACCOUNT: Final = re.compile(r"\d{12}")


class Process(StrEnum):
    """Who runs with credentials of its own; the application needs none, for it writes rows."""

    CODE_LOCATION = "code-location"
    """Relays, sensors, runs, asset checks and buttons: a run's worker has the role of its location,
    so that to split them would only say so."""
    OPERATOR = "operator"
    """A person's `pramaan doctor`, `status` and `dead-letters`."""
    METRICS = "metrics"
    """What only reads how deep the queues are."""
    PROVISIONER = "provisioner"
    """`pramaan provision`, and what CloudFormation does on its behalf."""


@dataclass(frozen=True)
class Place:
    """Where a policy is for."""

    environment: str
    account: str
    region: str
    runtime: str | None = None
    """The agent's, where one is invoked."""
    qualifier: str = "DEFAULT"

    @classmethod
    def of(cls, settings: Settings, account: str | None) -> "Place":
        """Return the place of `settings`.

        Args:
            settings: environment and region; and the account, by the framer queue's URL.
            account: twelve digits, where the settings do not name it yet.

        Raises:
            SettingsError: the account is not known, or is not one.
        """
        url = settings.framer_events_queue_url or ""
        named = account or "".join(url.rstrip("/").split("/")[-2:-1])
        if not _ACCOUNT.fullmatch(named):
            raise SettingsError(
                "The account is not known: give --account with its twelve digits, or set "
                "FRAMER_EVENTS_QUEUE_URL, whose path names it."
            )
        return cls(
            settings.pramaan_environment,
            named,
            settings.aws_region,
            settings.agent_runtime_arn,
            settings.agent_runtime_qualifier,
        )

    @property
    def partition(self) -> str:
        """The first part of every ARN of the region."""
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"


def policy(process: Process, place: Place) -> dict[str, Any]:
    """Return the policy of `process` in `place`, ready for IAM."""
    text = files(__package__).joinpath(f"{process}.json").read_text("utf-8")
    for placeholder, value in {
        "${Environment}": place.environment,
        "${AWS::AccountId}": place.account,
        "${AWS::Region}": place.region,
        "${AWS::Partition}": place.partition,
        "${AgentRuntimeArn}": place.runtime or _NONE,
        "${AgentRuntimeQualifier}": place.qualifier,
    }.items():
        text = text.replace(placeholder, value)
    filled: dict[str, Any] = json.loads(text)
    statements = [each for each in filled["Statement"] if _NONE not in each["Resource"]]
    return {**filled, "Statement": statements}
