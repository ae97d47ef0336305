"""What the official chart's values may say, as far as ours say it.

Written from the chart's schema (helm/dagster/charts/dagster-user-deployments/values.schema.json and
helm/dagster/schema of dagster-io/dagster, as of October 2026): its keys and types. Objects of
Kubernetes are open here, as they are references there. An unknown key is refused, which is stricter
than the chart for a deployment: Helm would take a misspelt probe without a word.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Pull = Literal["Always", "IfNotPresent", "Never"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Image(_Strict):
    repository: str
    tag: str | int | None = None
    pullPolicy: Pull  # noqa: N815 - the chart's word


class Enabled(BaseModel):
    enabled: bool


class ServiceAccount(_Strict):
    create: bool
    name: str
    annotations: dict[str, str]


class UserDeployment(_Strict):
    name: str
    image: Image
    port: int
    dagsterApiGrpcArgs: list[str] | None = None  # noqa: N815
    includeConfigInLaunchedRuns: Enabled | None = None  # noqa: N815
    env: list[dict[str, str]] | dict[str, str] | None = None
    envConfigMaps: list[dict[str, str]] | None = None  # noqa: N815
    envSecrets: list[dict[str, str]] | None = None  # noqa: N815
    podSecurityContext: dict[str, Any] | None = None  # noqa: N815
    securityContext: dict[str, Any] | None = None  # noqa: N815
    resources: dict[str, Any] | None = None
    livenessProbe: dict[str, Any] | None = None  # noqa: N815
    readinessProbe: Enabled | None = None  # noqa: N815
    startupProbe: dict[str, Any] | None = None  # noqa: N815
    deploymentStrategy: dict[str, Any] | None = None  # noqa: N815
    serviceAccount: ServiceAccount | None = None  # noqa: N815


class Queued(_Strict):
    maxConcurrentRuns: int  # noqa: N815
    tagConcurrencyLimits: list[dict[str, Any]]  # noqa: N815
    dequeueIntervalSeconds: int  # noqa: N815
    dequeueNumWorkers: int  # noqa: N815
    dequeueUseThreads: bool  # noqa: N815


class Coordinator(_Strict):
    enabled: bool
    type: Literal["QueuedRunCoordinator"]
    config: dict[Literal["queuedRunCoordinator"], Queued]


class Threads(BaseModel):
    useThreads: bool  # noqa: N815
    numWorkers: int  # noqa: N815
    numSubmitWorkers: int  # noqa: N815


class Retries(BaseModel):
    enabled: bool
    maxRetries: int  # noqa: N815
    retryOnAssetOrOpFailure: bool  # noqa: N815


class Daemon(_Strict):
    enabled: bool
    runCoordinator: Coordinator  # noqa: N815
    runMonitoring: dict[str, Any]  # noqa: N815
    runRetries: Retries  # noqa: N815
    sensors: Threads
    schedules: Threads


class TicksByKind(_Strict):
    skipped: int
    success: int
    failure: int
    started: int


class Ticks(BaseModel):
    purgeAfterDays: TicksByKind  # noqa: N815


class Retention(_Strict):
    enabled: bool
    sensor: Ticks
    schedule: Ticks


class Values(BaseModel):
    """The sections that ours have; each is held to its own keys."""

    dagsterDaemon: Daemon  # noqa: N815
    retention: Retention
