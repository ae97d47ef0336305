"""A user of the account with one policy, and the road that each process goes as that user."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from boto3.session import Session

from pramaan_pipelines.messaging.policies import Place, Process, policy
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.privileges.guard import Guard, Policy, for_emulator

USER = "process"


class Identity:
    """One user; outside `acting` all is done by the account's root."""

    def __init__(
        self, guard: Guard, account: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.guard = guard
        self.place = Place(settings.pramaan_environment, account, settings.aws_region)
        self._monkeypatch = monkeypatch
        create: Any = Session().client
        self._iam = create("iam", region_name="us-east-1", endpoint_url=settings.aws_endpoint_url)
        self._iam.create_user(UserName=USER)
        key = self._iam.create_access_key(UserName=USER)["AccessKey"]
        self._key = {
            "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        }

    def policy(self, process: Process) -> Policy:
        """Return the process's policy here."""
        return policy(process, self.place)

    @contextmanager
    def acting(self, granted: Policy) -> Iterator[None]:
        """Do all as the user, with `granted` and nothing else, while the block runs."""
        self._iam.put_user_policy(
            UserName=USER, PolicyName=USER, PolicyDocument=for_emulator(granted)
        )
        self.guard.policy = granted
        self.guard.seen.calls.clear()
        self.guard.seen.denied.clear()
        with self._monkeypatch.context() as patched:
            for name, value in self._key.items():
                patched.setenv(name, value)
            try:
                yield
            finally:
                self.guard.policy = None
