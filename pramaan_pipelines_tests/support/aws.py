"""The emulator and the stub as fixtures: one emulator a session, an account of its own a test."""

import os
import secrets
import socket
from collections.abc import Iterator

import botocore.session
import pytest
from botocore.loaders import create_loader

from pramaan_pipelines.local.aws import EmbeddedAws
from pramaan_pipelines.messaging.provision import provision
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.support.stub import Stub, stub_server


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def settings_for(endpoint: str, **more: str) -> Settings:
    return Settings.model_validate(
        {
            "pramaan_environment": "test",
            "database_url": "postgresql://unused",
            "aws_endpoint_url": endpoint,
            **more,
        }
    )


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint of a running emulator."""
    aws = EmbeddedAws(tmp_path_factory.mktemp("aws"))
    aws.start()
    try:
        yield aws.endpoint_url
    finally:
        aws.stop()


@pytest.fixture(scope="session")
def models_read_once() -> Iterator[None]:
    """Share botocore's models, which each of its sessions reads anew: most of the time, here."""
    loader = create_loader()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(botocore.session, "create_loader", lambda *_: loader)
        yield


@pytest.fixture
def aws_environment(monkeypatch: pytest.MonkeyPatch, models_read_once: None) -> str:
    """Credentials of an account that no other test uses; nothing of the machine's own."""
    del models_read_once
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    account = str(secrets.randbelow(9 * 10**11) + 10**11)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", account)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return account


@pytest.fixture
def bare(emulator: str, aws_environment: str) -> Settings:
    """Settings of an account with nothing in it."""
    del aws_environment
    return settings_for(emulator)


@pytest.fixture
def provisioned(bare: Settings) -> Settings:
    """Settings of an account with the stack."""
    outputs = provision(bare, visibility_timeout_seconds=30)
    named = {name.lower(): value for name, value in outputs.items()}
    return settings_for(str(bare.aws_endpoint_url), **named)


@pytest.fixture
def stub(aws_environment: str) -> Iterator[Stub]:
    """A server that speaks the protocol and fails on demand."""
    del aws_environment
    with stub_server() as running:
        yield running
