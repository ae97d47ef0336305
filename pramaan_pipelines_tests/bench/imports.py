"""Line 9: what it takes to import the code location, beside what it stands on."""

import json
import subprocess
import sys
from dataclasses import dataclass

from pramaan_pipelines_tests.bench.measure import Better, Line, Sample, interleaved
from pramaan_pipelines_tests.bench.site import REPOSITORY, Site

REACH = 1.1
OURS = ("pramaan_pipelines.definitions",)
BELOW = (
    "dagster",
    "sqlalchemy",
    "psycopg",
    "boto3",
    "opentelemetry.sdk.trace",
    "opentelemetry.sdk.metrics",
)
PROGRAM = """
import json, logging, time
logging.disable()
started = time.process_time()
import {}
print(json.dumps(time.process_time() - started))
"""


@dataclass(frozen=True)
class Imports:
    """A fresh interpreter that imports `modules`; seconds of its processor."""

    name: str
    modules: tuple[str, ...]

    def once(self) -> Sample:
        """Import them."""
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(", ".join(self.modules))],
            check=True,
            capture_output=True,
            cwd=REPOSITORY,
        )
        return Sample(float(json.loads(done.stdout.splitlines()[-1])))


def lines(site: Site) -> list[Line]:
    """Measure; after a first go that makes the compiled files."""
    contenders = [Imports("ours", OURS), Imports("the libraries alone", BELOW)]
    for contender in contenders:
        contender.once()
    ours, below = interleaved(contenders, 3 if site.quick else 10)
    return [Line("import of the code location", "CPU s", ours, below, Better.LESS, REACH)]
