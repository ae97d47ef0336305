"""Typed settings, read from the environment once.

Promises: the names are those of the stories; a missing or wrong value raises `SettingsError` that
names the variable and what to do.
Never: reads anything at import, or shows a secret in `repr` or in an error.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal, Self, get_args
from urllib.parse import unquote

from pydantic import AfterValidator, Field, SecretStr, StringConstraints, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from pramaan_pipelines.errors import SettingsError

HINT = "Run `pramaan up` for the embedded stack (it writes .env), or set it as .env.example shows."

REQUIRED = (
    "PRAMAAN_ENVIRONMENT",
    "DATABASE_URL",
    "DOCUMENT_INGESTION_QUEUE_URL",
    "DOCUMENT_REGISTRATION_QUEUE_URL",
    "FRAMER_EVENTS_QUEUE_URL",
    "EVENT_BUS_NAME",
)
"""What the whole code location needs; a single command may need less."""

OTHER_SECRETS: Final = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "DAGSTER_DATABASE_URL")
"""What botocore and the instance file read by themselves; never a setting of ours."""
OTLP_SECRETS: Final = (
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
)
"""What the exporters read by themselves: `name=value,name=value`, with the collector's token."""

OTLP_ENDPOINTS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
"""They may hold a user and a password."""

Signal = Literal["traces", "metrics"]

_SHORTEST_SECRET: Final = 8


def _without_userinfo(value: str) -> str:
    """Refuse a user and password in what will be shown; none of its readers needs one.

    Raises:
        ValueError: it holds an at sign.
    """
    if "@" in value:
        raise ValueError("it must not hold a user or a password")
    return value


Shown = Annotated[str, AfterValidator(_without_userinfo)]
_OWNER: Final = re.compile(r"team:\S+|[^\s@,]+@[^\s@,]+\.[^\s@,]+")


def _owners(value: str) -> str:
    """Refuse what Dagster would refuse as the owner of an asset.

    Raises:
        ValueError: one of them is neither.
    """
    for owner in value.split(","):
        if owner.strip() and not _OWNER.fullmatch(owner.strip()):
            raise ValueError("give e-mail addresses, or team:name, separated by commas")
    return value


Owners = Annotated[str, AfterValidator(_owners)]
EnvironmentName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
AgentRuntimeArn = Annotated[
    str,
    StringConstraints(
        pattern=r"^arn:aws[a-z-]*:bedrock-agentcore:[a-z0-9-]+:[0-9]{12}:runtime/[A-Za-z0-9_-]{1,100}$"
    ),
]
QualifierName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,99}$")]


def _is_secret(annotation: object) -> bool:
    return annotation is SecretStr or SecretStr in get_args(annotation)


class Settings(BaseSettings):
    """What the environment says. Field names are the variables' names in lower case."""

    # A variable that is set to nothing is not set: `DATABASE_URL=` must not pass for a URL.
    model_config = SettingsConfigDict(
        env_ignore_empty=True, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    pramaan_environment: EnvironmentName = Field(description="suffix of every queue and bus name")
    database_url: SecretStr = Field(description="Postgres as pramaan_app")
    migration_database_url: SecretStr | None = Field(
        default=None, description="Postgres as the owner; only `pramaan migrate` uses it"
    )
    maintenance_database_url: SecretStr | None = Field(
        default=None, description="Postgres as pramaan_maintenance; only pruning uses it"
    )
    document_ingestion_queue_url: Shown | None = None
    document_registration_queue_url: Shown | None = None
    framer_events_queue_url: Shown | None = None
    event_bus_name: Shown | None = None
    matter_frame_job_lease_seconds: int = Field(default=900, ge=1, le=86_400)
    matter_frame_job_max_tries: int = Field(default=3, ge=0, le=100)
    aws_region: Shown = "us-east-1"
    aws_endpoint_url: Shown | None = None
    pramaan_agent: Literal["stub", "agentcore"] = Field(
        default="stub", description="which agent runtime the invoke reaches"
    )
    agent_runtime_arn: AgentRuntimeArn | None = Field(
        default=None, description="the runtime that PRAMAAN_AGENT=agentcore invokes"
    )
    agent_runtime_qualifier: QualifierName = Field(
        default="DEFAULT", description="which endpoint of the runtime"
    )
    # An invoke is tried four times, and with its pauses stays under the run's longest life.
    agent_timeout_seconds: int = Field(
        default=120, ge=1, le=140, description="bound of one invoke, to its last byte"
    )
    pramaan_log_format: Literal["text", "json"] = Field(
        default="text", description="how the process log's lines of this project are written"
    )

    @classmethod
    def load(cls) -> Self:
        """Read the environment.

        Raises:
            SettingsError: a variable is missing or unusable; the text names each one.
        """
        try:
            return cls()
        except ValidationError as error:
            raise SettingsError(_explain(error)) from None

    def require(self, name: str) -> str:
        """Return the setting `name`, which the caller cannot do without.

        Raises:
            SettingsError: it is not set.
        """
        value = getattr(self, name)
        if not value:
            raise SettingsError(f"{name.upper()} is not set. {HINT}")
        return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


class ViewSettings(BaseSettings):
    """What an operator may set of the view: every field has a default, so that it always loads."""

    model_config = Settings.model_config

    pramaan_asset_owners: Owners = Field(
        default="", description="owners of the assets: e-mail addresses, or team:name, by commas"
    )
    pramaan_check_pending_warn_rows: int = Field(default=1_000, ge=1, le=10_000)
    pramaan_check_pending_error_rows: int = Field(default=10_000, ge=1, le=10_000)
    pramaan_check_oldest_warn_seconds: int = Field(default=300, ge=1)
    pramaan_check_oldest_error_seconds: int = Field(default=1_800, ge=1)
    pramaan_check_parked_error_rows: int = Field(default=100, ge=1, le=10_000)
    pramaan_check_dead_letters_error: int = Field(default=100, ge=1)
    pramaan_check_stale_grace_seconds: int = Field(
        default=180,
        ge=60,
        description="seconds after its lease until the sweep is late",
    )
    pramaan_keep_successful_runs_days: int = Field(default=7, ge=1, le=3_650)
    pramaan_keep_failed_runs_days: int = Field(default=30, ge=1, le=3_650)
    pramaan_keep_observations_days: int = Field(default=30, ge=1, le=3_650)

    @classmethod
    def load(cls) -> Self:
        """Read the environment.

        Raises:
            SettingsError: a variable is unusable; the text names each one.
        """
        try:
            return cls()
        except ValidationError as error:
            raise SettingsError(_explain(error)) from None

    @property
    def owners(self) -> list[str]:
        """The owners, one by one."""
        return [owner.strip() for owner in self.pramaan_asset_owners.split(",") if owner.strip()]


SECRET_SETTINGS: Final = tuple(
    name.upper() for name, field in Settings.model_fields.items() if _is_secret(field.annotation)
)


def wake_up_wanted(environment: Mapping[str, str]) -> bool:
    """Tell whether PRAMAAN_WAKE_UP asks for it, before there is a whole environment to load.

    What is no yes is a no here; `Settings.load` names it.
    """
    return environment.get("PRAMAAN_WAKE_UP", "").strip().lower() in {"1", "true", "yes", "on"}


class ExportSettings(BaseSettings):
    """The OpenTelemetry variables that decide whether and how long this process exports.

    All are taken as they are: a value that cannot be used is told and exports nothing, for no
    telemetry is worth a run. Headers, compression, certificates, sampler, queue sizes and intervals
    are read by the SDK itself.

    Source: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
    """

    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore", frozen=True)

    otel_sdk_disabled: str = "false"
    otel_service_name: str | None = None
    otel_traces_exporter: str | None = None
    otel_metrics_exporter: str | None = None
    otel_exporter_otlp_endpoint: SecretStr | None = None
    otel_exporter_otlp_traces_endpoint: SecretStr | None = None
    otel_exporter_otlp_metrics_endpoint: SecretStr | None = None
    otel_exporter_otlp_headers: SecretStr | None = None
    otel_exporter_otlp_traces_headers: SecretStr | None = None
    otel_exporter_otlp_metrics_headers: SecretStr | None = None
    otel_exporter_otlp_certificate: str | None = None
    otel_exporter_otlp_traces_certificate: str | None = None
    otel_exporter_otlp_metrics_certificate: str | None = None
    otel_exporter_otlp_client_key: str | None = None
    otel_exporter_otlp_traces_client_key: str | None = None
    otel_exporter_otlp_metrics_client_key: str | None = None
    otel_exporter_otlp_client_certificate: str | None = None
    otel_exporter_otlp_traces_client_certificate: str | None = None
    otel_exporter_otlp_metrics_client_certificate: str | None = None
    otel_exporter_otlp_protocol: str | None = None
    otel_exporter_otlp_traces_protocol: str | None = None
    otel_exporter_otlp_metrics_protocol: str | None = None
    otel_exporter_otlp_timeout: str | None = None
    otel_exporter_otlp_traces_timeout: str | None = None
    otel_exporter_otlp_metrics_timeout: str | None = None
    otel_exporter_otlp_metrics_temporality_preference: str | None = None

    def of(self, name: str, signal: Signal) -> str | None:
        """Return OTEL_EXPORTER_OTLP_{SIGNAL}_{NAME}, or the one for both signals."""
        return self.own(name, signal) or _plain(getattr(self, f"otel_exporter_otlp_{name}"))

    def own(self, name: str, signal: Signal) -> str | None:
        """Return OTEL_EXPORTER_OTLP_{SIGNAL}_{NAME} alone."""
        return _plain(getattr(self, f"otel_exporter_otlp_{signal}_{name}"))

    def named(self, name: str, signal: Signal) -> str:
        """Return the variable from which `of` takes its answer."""
        own = f"{signal}_{name}" if self.own(name, signal) else name
        return f"OTEL_EXPORTER_OTLP_{own}".upper()

    def exporter(self, signal: Signal) -> str:
        """Return OTEL_{SIGNAL}_EXPORTER; unset, it is `otlp` where an endpoint is named."""
        if self.otel_sdk_disabled.strip().lower() == "true":
            return "none"
        named: str | None = getattr(self, f"otel_{signal}_exporter")
        return (named or ("otlp" if self.of("endpoint", signal) else "none")).strip().lower()


def missing_settings(environment: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Return those of `names` that `environment` does not set, as they were given."""
    return [name for name in names if not environment.get(name)]


def known_secrets(environment: Mapping[str, str]) -> list[str]:
    """Return the secrets that `environment` holds, longest first, for taking them out of a text.

    A database URL counts as a whole and by its password, as written and decoded. What is shorter
    than eight characters is left out: it would take harmless words out of every text.
    """
    found: set[str] = set()
    for name in (*SECRET_SETTINGS, *OTHER_SECRETS):
        value = environment.get(name, "")
        found |= {value, *_passwords(value)}
    for name in OTLP_ENDPOINTS:
        found |= {*_passwords(environment.get(name, ""))}
    for name in OTLP_SECRETS:
        pairs = environment.get(name, "").split(",")
        found |= {form for pair in pairs for form in _forms(pair.partition("=")[2].strip())}
    long_enough = (secret for secret in found if len(secret) >= _SHORTEST_SECRET)
    return sorted(long_enough, key=lambda secret: (-len(secret), secret))


def _plain(value: SecretStr | str | None) -> str | None:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _passwords(url: str) -> Iterable[str]:
    # By hand: a URL that cannot be parsed may hold a password all the same.
    userinfo = url.partition("://")[2].rpartition("@")[0]
    return _forms(userinfo.partition(":")[2])


def _forms(encoded: str) -> Iterable[str]:
    return (encoded, unquote(encoded))


def _explain(error: ValidationError) -> str:
    parts = []
    for item in error.errors(include_input=False, include_context=False, include_url=False):
        name = ".".join(str(part) for part in item["loc"]).upper()
        problem = "is not set" if item["type"] == "missing" else f"is unusable: {item['msg']}"
        parts.append(f"{name} {problem}.")
    return " ".join([*parts, HINT])
