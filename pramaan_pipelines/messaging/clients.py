"""The boto3 clients, with time-outs that a transaction can afford.

Promises: region and endpoint come from the settings, credentials as botocore finds them; a call
ends within its bound, whatever the service does.
Never: creates a client at import, or retries for long; retrying belongs to the lane.
"""

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from botocore.loaders import Loader, create_loader
from botocore.session import Session as BotocoreSession

from pramaan_pipelines.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_sqs import SQSClient

SENDING_THREADS: Final = 4
"""Calls of one `send` that are under way at once."""

CONNECT_SECONDS: Final = 3.0
READ_SECONDS: Final = 5.0
ATTEMPTS: Final = 2
"""One retry, for a connection that the other side closed while it was idle. With botocore's pause
of at most 1 s between the two, a call ends within 2 x (3 + 5) + 1 = 17 s."""


@overload
def client(
    service: Literal["sqs"],
    settings: Settings,
    *,
    read_seconds: float = ...,
    connections: int = ...,
) -> "SQSClient": ...
@overload
def client(
    service: Literal["events"],
    settings: Settings,
    *,
    read_seconds: float = ...,
    connections: int = ...,
) -> "EventBridgeClient": ...
@overload
def client(
    service: Literal["cloudformation"],
    settings: Settings,
    *,
    read_seconds: float = ...,
    connections: int = ...,
) -> "CloudFormationClient": ...
def client(
    service: Literal["sqs", "events", "cloudformation"],
    settings: Settings,
    *,
    read_seconds: float = READ_SECONDS,
    connections: int = SENDING_THREADS,
) -> Any:
    """Return a new client of `service`; it may be shared between threads.

    Args:
        service: boto3's name of the service.
        settings: gives the region and, when set, the endpoint. botocore reads AWS_DEFAULT_REGION
            but not AWS_REGION, so neither is left to it.
        read_seconds: how long to wait for an answer; a long poll needs more than it waits.
        connections: calls that are under way at once, at the most; urllib3 warns in the process
            log of each one beyond.
    """
    endpoint_url = settings.aws_endpoint_url or None
    bounds = _bounds(read_seconds, ATTEMPTS, connections)
    return _make(service, settings.aws_region, endpoint_url, bounds)


def agent_client(*, region: str, read_seconds: float) -> Any:
    """Return a new client of the agent runtime.

    It makes one attempt: another one is the run's to make, where it is seen. An endpoint is
    botocore's own business here (AWS_ENDPOINT_URL_BEDROCK_AGENTCORE before AWS_ENDPOINT_URL): the
    stand-in of the queues is none of the runtime.

    Args:
        region: where the runtime is.
        read_seconds: how long to wait for the first and for each next byte.
    """
    return _make("bedrock-agentcore", region, None, _bounds(read_seconds, 1))


def agent_control_client(*, region: str) -> Any:
    """Return a new client of what describes the agent runtimes of `region`; only doctor asks it."""
    return _make("bedrock-agentcore-control", region, None, _bounds(READ_SECONDS, ATTEMPTS))


def _bounds(read_seconds: float, attempts: int, connections: int = SENDING_THREADS) -> Config:
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        retries={"total_max_attempts": attempts, "mode": "standard"},
        max_pool_connections=connections,
        tcp_keepalive=True,
    )


def preload(service: Literal["sqs", "events"]) -> None:
    """Read botocore's description of `service` now, so that a process forked later need not.

    It is data from files: nothing is connected, and no credential is looked for. Where the
    machine's AWS configuration is at fault, the first client that is needed tells so, not this.
    """
    with suppress(BotoCoreError):
        base = _base()
        base.set_credentials("none", "none")
        base.set_config_variable("defaults_mode", "legacy")  # "auto" would ask EC2 where it runs
        base.create_client(service, "us-east-1")


def _make(service: str, region: str, endpoint_url: str | None, config: Config) -> Any:
    # A session of our own: boto3's default one is global and not safe to use from threads.
    create: Any = Session(botocore_session=_base()).client
    return create(service, region_name=region, endpoint_url=endpoint_url, config=config)


def _base() -> BotocoreSession:
    # What the sessions do share: reading and parsing the descriptions is five sixths of a client.
    base = BotocoreSession()
    base.register_component("data_loader", _loader(base.get_config_variable("data_path")))
    return base


@cache
def _loader(data_path: str | None) -> Loader:
    return create_loader(data_path)
