"""What a client costs to make: every tick and every run makes some."""

import pytest
from botocore.exceptions import ProfileNotFound
from botocore.loaders import JSONFileLoader

from pramaan_pipelines.messaging.clients import client, preload
from pramaan_pipelines.settings import Settings

SETTINGS = Settings.model_validate(
    {"pramaan_environment": "test", "database_url": "postgresql://x", "aws_region": "us-east-1"}
)


class Reads:
    """Counts the files of botocore's that are read and parsed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        self._load = JSONFileLoader.load_file
        monkeypatch.setattr(JSONFileLoader, "load_file", self)

    def __call__(self, path: str) -> object:
        found: object = self._load(JSONFileLoader(), path)
        self.number += found is not None
        return found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Reads:
    """From a place that no other test has read yet; botocore's own comes after it."""
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path_factory.mktemp("descriptions")))
    return Reads(monkeypatch)


def test_descriptions_are_read_once_a_process(reads: Reads) -> None:
    first = client("sqs", SETTINGS)
    once = reads.number
    second = client("sqs", SETTINGS)
    assert 0 < once == reads.number
    assert first is not second
    assert first.meta.events is not second.meta.events


def test_what_was_preloaded_is_not_read_again(reads: Reads) -> None:
    preload("sqs")
    before = reads.number
    client("sqs", SETTINGS)
    assert 0 < before == reads.number


@pytest.mark.usefixtures("reads")
def test_a_fault_of_the_aws_configuration_is_told_by_the_client_not_by_the_preloading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The zygote preloads, and would be gone with it."""
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    preload("sqs")
    with pytest.raises(ProfileNotFound, match="no-such-profile"):
        client("sqs", SETTINGS)
