"""Runs a soak, and prints its ledger; the exit code is 0 only where the ledger is good."""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
from pathlib import Path

import psycopg

from pramaan_pipelines.local.embedded import make_ready
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import DATABASE
from pramaan_pipelines.local.stack import POSTGRES, down
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.soak.site import (
    LEASE_SECONDS,
    MAX_TRIES,
    VISIBILITY_SECONDS,
    Journal,
    Site,
    chance_of,
    say,
)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="of kills (3)")
    parser.add_argument("--seed", type=int, default=None, help="of what is left to chance")
    parser.add_argument("--json", action="store_true", help="print the ledger as JSON")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the stack is to go with us
    seed = random.SystemRandom().randrange(2**32) if asked.seed is None else asked.seed
    say(f"seed {seed}, {asked.minutes} min of faults")
    with tempfile.TemporaryDirectory(prefix="pramaan-soak-") as folder:
        state = Path(folder) / "stack"
        prepare_environment()
        try:
            make_ready(state, None, {}, visibility_seconds=VISIBILITY_SECONDS)
            admin = EmbeddedPostgres(state / POSTGRES).admin_url(DATABASE)
            with psycopg.connect(admin, autocommit=True) as god:
                # Not earlier: the code location says at its import what is not configured yet.
                from pramaan_pipelines_tests.soak.course import soak  # noqa: PLC0415

                site = Site(Settings.load(), god, Journal(Path(folder)), chance_of(seed))
                ledger = soak(site, asked.minutes * 60)
        finally:
            down(state, wipe=True)
    print(json.dumps({"seed": seed, **ledger.as_dict()}) if asked.json else ledger)  # noqa: T201
    return 0 if ledger.good else 1


def prepare_environment() -> None:
    """Keep the machine's own settings out, and set those that are not the stack's."""
    for name in [*os.environ]:
        if name.startswith(("AWS_", "PG")) or name.lower() in Settings.model_fields:
            del os.environ[name]
    os.environ.update(
        AWS_EC2_METADATA_DISABLED="true",
        MATTER_FRAME_JOB_LEASE_SECONDS=str(LEASE_SECONDS),
        MATTER_FRAME_JOB_MAX_TRIES=str(MAX_TRIES),
    )


if __name__ == "__main__":
    sys.exit(main())
