"""Where the output of run processes goes on a hosted instance.

Promises: one instance file serves with a bucket and without: to S3 when one is named, to the
process's own output otherwise, which the platform collects.
Never: reads the environment; the instance file says `bucket: {env: ...}`.
"""

from collections.abc import Mapping
from typing import Any

from dagster import Field, StringSource
from dagster._config.config_schema import UserConfigSchema
from dagster._core.storage.compute_log_manager import ComputeLogManager
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager
from dagster._serdes import ConfigurableClass, ConfigurableClassData


class BucketOrNothing(NoOpComputeLogManager, ConfigurableClass):
    """Becomes Dagster's own manager: S3ComputeLogManager, or NoOpComputeLogManager."""

    @classmethod
    def config_type(cls) -> UserConfigSchema:
        """Return what `compute_logs.config` of the instance file may say."""
        return {
            "bucket": Field(StringSource, description="name of the bucket; empty for none"),
            "prefix": Field(StringSource, is_required=False, default_value="dagster"),
        }

    @classmethod
    def from_config_value(  # type: ignore[override] # it makes one of two others, as its job is
        cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]
    ) -> ComputeLogManager[Any]:
        """Return the manager that the bucket's name asks for."""
        bucket = config_value["bucket"].strip()
        if not bucket:
            return NoOpComputeLogManager(inst_data)
        # Any import of dagster_aws costs over a second, in every run worker.
        from dagster_aws.s3.compute_log_manager import S3ComputeLogManager  # noqa: PLC0415

        manager: ComputeLogManager[Any] = S3ComputeLogManager(
            bucket=bucket,
            prefix=config_value["prefix"],
            inst_data=inst_data,
            skip_empty_files=True,
            # A run's output may be content; the page shows where it is, and S3 says who may read.
            show_url_only=True,
            upload_extra_args={"ServerSideEncryption": "aws:kms"},
        )
        return manager
