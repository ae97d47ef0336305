"""The code location's environment, with a lease and a visibility of seconds."""

import pytest
from pydantic import SecretStr

from pramaan_pipelines.messaging.provision import provision
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.crash.drive import LEASE_SECONDS, VISIBILITY_SECONDS
from pramaan_pipelines_tests.support.world import ENVIRONMENT


@pytest.fixture
def configured(bare: Settings, app_url: SecretStr, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The environment of the code location, with a lease and a visibility of seconds."""
    values = {
        "PRAMAAN_ENVIRONMENT": ENVIRONMENT,
        "DATABASE_URL": app_url.get_secret_value(),
        "AWS_ENDPOINT_URL": str(bare.aws_endpoint_url),
        "MATTER_FRAME_JOB_LEASE_SECONDS": str(LEASE_SECONDS),
        **provision(bare, visibility_timeout_seconds=VISIBILITY_SECONDS),
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    return Settings.load()
