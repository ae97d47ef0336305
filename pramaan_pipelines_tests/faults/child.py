"""One relay run as a process of its own: what the tests kill. The lane's name is its argument."""

import sys

from pramaan_pipelines.outbox.lanes import LANES
from pramaan_pipelines.outbox.relay import run_relay
from pramaan_pipelines.outbox.selection import DrainLimits
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines.telemetry.provider import Telemetry
from pramaan_pipelines_tests.faults.matrix import BATCH


def main() -> None:
    (lane,) = (lane for lane in LANES if lane.name == sys.argv[1])
    settings = Settings.load()
    run_relay(
        lane,
        database=Database.connect(settings.database_url),
        publisher=lane.publisher(settings),
        telemetry=Telemetry.current(settings.pramaan_environment),
        limits=DrainLimits(rows=BATCH),
    )


if __name__ == "__main__":
    main()
