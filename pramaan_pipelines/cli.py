"""The `pramaan` command.

Promises: each subcommand is one call of the rooms below; an error says what to do, and the exit
code is 0 only when what was asked for was done.
Never: prints a secret.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dotenv import load_dotenv
from pydantic import SecretStr

from pramaan_pipelines import __version__
from pramaan_pipelines.contracts.text import safe_text
from pramaan_pipelines.errors import PramaanError
from pramaan_pipelines.settings import Settings

ENV_FILE: Final = Path(".env")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        code: int = options.run(options)
    except PramaanError as error:
        sys.stderr.write(f"pramaan: {error}\n")
        return 1
    except Exception as error:
        if options.debug:
            raise
        sys.stderr.write(
            f"pramaan: {type(error).__name__}: {safe_text(error)}\n"
            "(`pramaan --debug COMMAND` shows where it came from.)\n"
        )
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pramaan", description="Pramaan's pipelines.")
    parser.add_argument("--version", action="version", version=f"pramaan {__version__}")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run)
        return command

    add("up", _up, "start the embedded Postgres and AWS, migrate, provision, and write .env")
    down = add("down", _down, "stop what `up` started; the data stays")
    down.add_argument("--wipe", action="store_true", help="delete the data too")
    add("status", _status, "say what runs where, and what waits in each lane")
    add("migrate", _migrate, "migrate MIGRATION_DATABASE_URL to head, as the owner")
    provision = add("provision", _provision, "create or update the CloudFormation stack")
    provision.add_argument("--visibility-timeout", type=int, default=1320, metavar="SECONDS")
    add("seed", _seed, "write the sample data where it is absent")
    dev = add("dev", _dev, "everything above and `dagster dev`, with a stream of sample data")
    dev.add_argument("--port", type=int, help="of the UI; 3000, or a free one")
    demo = add("demo", _demo, "push a fixed set of events through and show what became of each")
    demo.add_argument("--json", action="store_true", help="print the result for machines")
    return parser


def _state() -> Path:
    from pramaan_pipelines.local.stack import state_folder

    return state_folder(os.environ, Path.cwd())


def _up(_: argparse.Namespace) -> int:
    from pramaan_pipelines.local.embedded import make_ready

    ready = make_ready(_state(), ENV_FILE, dict(os.environ))
    started = ", ".join(sorted(ready.stack.started)) or "nothing, all was running"
    _say(f"Started: {started}. Variables are in {ENV_FILE}; `dagster dev` reads them.")
    return 0


def _down(options: argparse.Namespace) -> int:
    from pramaan_pipelines.local.stack import down

    down(_state(), wipe=options.wipe)
    return 0


def _status(_: argparse.Namespace) -> int:
    from pramaan_pipelines.local.stack import status

    load_dotenv(ENV_FILE)
    for row in status(_state(), os.environ):
        _say(f"{row.part:<10} {row.state:<14} {row.where}")
    if not os.environ.get("DATABASE_URL"):
        return 0
    from pramaan_pipelines.outbox.backlog import backlog, unclaimed_events
    from pramaan_pipelines.outbox.lanes import LANES
    from pramaan_pipelines.store.database import Database

    database = Database.connect(Settings.load().database_url)
    with database.staff() as connection:
        for lane in LANES:
            left = backlog(connection, lane)
            _say(
                f"{lane.name:<28} pending {left.pending}, oldest {left.oldest_seconds:.0f} s, "
                f"parked {left.parked}"
            )
        for event_type, count in unclaimed_events(connection).items():
            _say(f"NO LANE DRAINS {event_type}: {count} pending rows")
    database.close()
    return 0


def _migrate(_: argparse.Namespace) -> int:
    from pramaan_pipelines.store import migrate

    load_dotenv(ENV_FILE)
    url = SecretStr(Settings.load().require("migration_database_url"))
    migrate.upgrade(url)
    _say(f"The database is at revision {migrate.current(url)}.")
    return 0


def _provision(options: argparse.Namespace) -> int:
    from pramaan_pipelines.local.envfile import write_env
    from pramaan_pipelines.messaging.provision import provision

    load_dotenv(ENV_FILE)
    outputs = provision(Settings.load(), visibility_timeout_seconds=options.visibility_timeout)
    write_env(ENV_FILE, outputs)
    for name, value in outputs.items():
        _say(f"{name}={value}")
    return 0


def _seed(_: argparse.Namespace) -> int:
    from pramaan_pipelines.local.seed import seed
    from pramaan_pipelines.store.database import Database

    load_dotenv(ENV_FILE)
    settings = Settings.load()
    database = Database.connect(settings.database_url)
    new = seed(database, settings.pramaan_environment)
    database.close()
    _say(f"{new} sample firms are new.")
    return 0


def _dev(options: argparse.Namespace) -> int:
    from pramaan_pipelines.local.dev import dev

    return dev(_state(), ENV_FILE, dict(os.environ), port=options.port)


def _demo(options: argparse.Namespace) -> int:
    from pramaan_pipelines.local.demo import demo

    return demo(_state() / "demo", as_json=options.json)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
