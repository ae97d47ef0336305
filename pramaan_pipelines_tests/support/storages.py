"""The `storage` sections of a dagster.yaml."""

from pramaan_pipelines.orchestration.pooled_storage import PooledPostgresStorage


def pooled(url: str) -> dict[str, object]:
    """Return the one that keeps its connections, as deploy/dagster.yaml has it."""
    kind = {"module": PooledPostgresStorage.__module__, "class": PooledPostgresStorage.__name__}
    return {"custom": {**kind, "config": {"postgres_url": url}}}
