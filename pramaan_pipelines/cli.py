"""The `pramaan` command.

Promises: each subcommand is one call of the rooms below; an error says what to do, and the exit
code is 0 only when what was asked for was done.
Never: prints a secret.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from dotenv import dotenv_values, load_dotenv
from pydantic import SecretStr

from pramaan_pipelines import __version__
from pramaan_pipelines.arguments import address, day, time, within
from pramaan_pipelines.contracts.text import counted
from pramaan_pipelines.errors import PramaanError
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.terminal import complain as _complain
from pramaan_pipelines.terminal import say as _say
from pramaan_pipelines.terminal import traceback_of

if TYPE_CHECKING:
    from pramaan_pipelines.store.database import Database

DEAD_LETTER_QUEUES: Final = (
    "framer_events_dead_letters",
    "documents_ingestion_dead_letters",
    "documents_registration_dead_letters",
    "undeliverable_events",
)
"""`DeadLetterQueue`, without boto3, whose import would be most of `pramaan --help`."""
ENV_FILE: Final = Path(".env")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit code."""
    options = _parser().parse_args(arguments)
    if not options.long_lived:
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        code: int = options.run(options)
    except Exception as error:  # noqa: BLE001 - the outermost frame tells every error
        if options.debug:
            _complain(traceback_of(error))
        elif isinstance(error, PramaanError):
            _complain(f"pramaan: {error}\n")
        else:
            from pramaan_pipelines.store.database import told_of

            _complain(
                f"pramaan: {type(error).__name__}: {told_of(error)}\n"
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
        command.set_defaults(run=run, long_lived=False)
        return command

    add("up", _up, "start the embedded Postgres and AWS, migrate, provision, and write .env")
    down = add("down", _down, "stop what `up` started; the data stays")
    down.add_argument(
        "--wipe", action="store_true", help="delete the data too, and .env if it is as `up` left it"
    )
    add("status", _status, "say what runs where, and what waits in each lane")
    add("migrate", _migrate, "migrate MIGRATION_DATABASE_URL to head, as the owner")
    place = add("provision", _provision, "create or update the CloudFormation stack")
    place.add_argument("--visibility-timeout", type=within(60, 43_200), default=1320, metavar="S")
    place.add_argument("--resolve", action="store_true", help="only name what is there, or fail")
    policies = add("policies", _policies, "print the IAM policy of a process, ready to attach")
    policies.add_argument(
        "process", choices=["code-location", "operator", "metrics", "provisioner"]
    )
    policies.add_argument("--account", help="twelve digits; taken from the queue URLs if set")
    add("seed", _seed, "write the sample data where it is absent")
    doctor = add("doctor", _doctor, "check everything that the code location needs")
    doctor.add_argument("--json", action="store_true", help="for machines")
    doctor.add_argument("--smoke", action="store_true", help="then send a canary through each lane")
    _add_sending(add)
    rebuild = add("rebuild", _rebuild, "build one matter's frame anew")
    rebuild.add_argument("--firm", type=UUID, required=True)
    rebuild.add_argument("--matter", type=UUID, required=True)
    complete = add("complete", _complete, "report that an agent run ended (agents on their own)")
    complete.add_argument("--firm", type=UUID, required=True)
    complete.add_argument("--agent-run", type=UUID, required=True)
    complete.add_argument("--failed", action="store_true", help="it failed; healing takes it up")
    heartbeat = add("heartbeat", _heartbeat, "report that an agent run is alive")
    heartbeat.add_argument("--firm", type=UUID, required=True)
    heartbeat.add_argument("--agent-run", type=UUID, required=True)
    metrics = add("metrics", _metrics, "export what stands where, until it is told to end")
    metrics.set_defaults(long_lived=True)
    metrics.add_argument(
        "--listen", type=address, metavar="HOST:PORT", help="serve it to Prometheus there, too"
    )
    metrics.add_argument(
        "--every", type=within(1, 3600), default=15, metavar="SECONDS", help="between two looks"
    )
    dev = add("dev", _dev, "everything above and `dagster dev`, with a stream of sample data")
    dev.add_argument("--port", type=within(1, 65_535), help="of the UI; 3000, or a free one")
    demo = add("demo", _demo, "push a fixed set of events through and show what became of each")
    demo.add_argument("--json", action="store_true", help="print the result for machines")
    return parser


def _add_sending(add: Callable[[str, object, str], argparse.ArgumentParser]) -> None:
    """Add what sends again, and what deletes."""
    redrive = add("redrive", _redrive, "send parked rows again; says what it would do without --go")
    redrive.add_argument("lane", help="as `pramaan status` names it")
    redrive.add_argument("--since", type=time, help="parked at this time or later, ISO 8601")
    redrive.add_argument("--until", type=time, help="parked before this time, ISO 8601")
    redrive.add_argument("--reason", help="a part of the reason's text")
    redrive.add_argument("--go", action="store_true", help="do it")
    replay = add("replay", _replay, "send days of a lane again; says what it would do without --go")
    replay.add_argument("lane", help="as `pramaan status` names it")
    replay.add_argument("--from", type=day, required=True, dest="first", metavar="DAY")
    replay.add_argument("--to", type=day, dest="last", metavar="DAY", help="included; --from's day")
    replay.add_argument("--also-sent", action="store_true", help="also what was sent before")
    replay.add_argument("--restart", action="store_true", help="begin unfinished days anew")
    replay.add_argument("--go", action="store_true", help="do it")
    letters = add("dead-letters", _dead_letters, "show a queue's dead letters, or redrive them")
    letters.add_argument(
        "--queue",
        choices=DEAD_LETTER_QUEUES,
        default=DEAD_LETTER_QUEUES[0],
        help="as `pramaan status` names it; %(default)s where none is given",
    )
    letters.add_argument("--redrive", choices=["passing", "all"], help="send these again")
    prune = add("prune", _prune, "delete rows dispatched long ago; counts them without --go")
    prune.add_argument("--older-than-days", type=within(1, 36_500), default=30)
    prune.add_argument("--go", action="store_true", help="do it")


def _load_env() -> None:
    """Take .env over the environment, as Dagster does: the two must never mean two databases."""
    for name, value in dotenv_values(ENV_FILE).items():
        given = os.environ.get(name)
        if given and value is not None and given != value:
            _complain(f"pramaan: .env overrides {name} of the environment, as in Dagster\n")
    load_dotenv(ENV_FILE, override=True)


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

    down(_state(), wipe=options.wipe, env_file=ENV_FILE)
    return 0


def _status(_: argparse.Namespace) -> int:
    from pramaan_pipelines.local.stack import status

    _load_env()
    for row in status(_state(), os.environ):
        _say(f"{row.part:<10} {row.state:<14} {row.where}")
    if not os.environ.get("DATABASE_URL"):
        _say(f"DATABASE_URL is not set here ({Path.cwd()}): what waits in the lanes is not known.")
        return 0
    from pramaan_pipelines.watch import told
    from pramaan_pipelines.watch.look import Watch

    with _database() as database:
        watch = Watch(Settings.load(), database)
        stored = list(told.database_lines(watch.database()))
    queued = list(told.queue_lines(watch.queues()))
    for line in (*stored, *queued):
        _say(line)
    # Queues that were not provisioned yet are none that could not be read.
    looked_at = (*stored, *queued) if os.environ.get("FRAMER_EVENTS_QUEUE_URL") else stored
    return 1 if any(told.UNREADABLE in line for line in looked_at) else 0


def _migrate(_: argparse.Namespace) -> int:
    from pramaan_pipelines.store import migrate

    _load_env()
    url = SecretStr(Settings.load().require("migration_database_url"))
    migrate.upgrade(url)
    _say(f"The database is at revision {migrate.current(url)}.")
    return 0


def _provision(options: argparse.Namespace) -> int:
    from pramaan_pipelines.local.envfile import write_env
    from pramaan_pipelines.messaging.provision import provision, resolve

    _load_env()
    if options.resolve:
        outputs = resolve(Settings.load())
    else:
        outputs = provision(Settings.load(), visibility_timeout_seconds=options.visibility_timeout)
        write_env(ENV_FILE, outputs)
    for name, value in outputs.items():
        _say(f"{name}={value}")
    return 0


def _policies(options: argparse.Namespace) -> int:
    from pramaan_pipelines.messaging.policies import Place, Process, policy

    _load_env()
    place = Place.of(Settings.load(), options.account)
    _say(json.dumps(policy(Process(options.process), place), indent=2))
    return 0


def _seed(_: argparse.Namespace) -> int:
    from pramaan_pipelines.local.seed import seed

    with _database() as database:
        new = seed(database, Settings.load().pramaan_environment)
    _say(f"New sample firms: {new}.")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from pramaan_pipelines.doctor import examine
    from pramaan_pipelines.doctor.smoked import smoked

    _load_env()
    checks = examine()
    if options.smoke and all(check.passed for check in checks):
        checks += smoked()
    if options.json:
        _say(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        for check in checks:
            _say(f"{'ok ' if check.passed else 'RED'}  {check.name:<20} {check.told}")
    return 0 if all(check.passed for check in checks) else 1


def _redrive(options: argparse.Namespace) -> int:
    from pramaan_pipelines.outbox.lanes import lane_named
    from pramaan_pipelines.outbox.redrive import ParkedSelection, redrive_parked

    lane = lane_named(options.lane)
    selection = ParkedSelection(options.since, options.until, options.reason)
    with _database() as database:
        result = redrive_parked(database, lane, selection, dry_run=not options.go)
    for row in result.rows:
        _say(f"{row.event_id}  {row.parked_at:%Y-%m-%d %H:%M:%S%z}  {row.reason}")
    if options.go:
        verb = "is" if result.redriven == 1 else "are"
        _say(f"{counted(result.redriven, 'parked row')} {verb} pending again.")
    else:
        would = counted(result.selected, "parked row")
        _say(f"{would} would be pending again; do it with --go.")
    return 0


def _replay(options: argparse.Namespace) -> int:
    from pramaan_pipelines.outbox.lanes import lane_named
    from pramaan_pipelines.outbox.replay_days import each_day, look_at_days, replay_days

    lane, also_sent = lane_named(options.lane), options.also_sent
    days = each_day(options.first, options.last)
    with _database() as database:
        for told in (
            replay_days(database, lane, days, also_sent=also_sent, restart=options.restart)
            if options.go
            else look_at_days(database, lane, days, also_sent=also_sent)
        ):
            _say(told)
    return 0


def _dead_letters(options: argparse.Namespace) -> int:
    from pramaan_pipelines.letter_boxes import open_letter_box, told
    from pramaan_pipelines.messaging.letters import Which
    from pramaan_pipelines.messaging.queues import DeadLetterQueue

    with _database() as database:
        box = open_letter_box(DeadLetterQueue(options.queue), Settings.load(), database)
        letters = box.redrive(Which(options.redrive or "passing"), dry_run=options.redrive is None)
    lines, left = told(letters, None if options.redrive is None else Which(options.redrive))
    for line in lines:
        _say(line)
    return 1 if left else 0


def _prune(options: argparse.Namespace) -> int:
    from pramaan_pipelines.outbox.retention import prune_dispatched

    _load_env()
    url = SecretStr(Settings.load().require("maintenance_database_url"))
    result = prune_dispatched(url, older_than_days=options.older_than_days, dry_run=not options.go)
    verb = "pruned" if options.go else "would be pruned; do it with --go"
    for table, count in result.rows.items():
        _say(f"{table}: {counted(count, 'row')} {verb}")
    if not result.finished:
        _say("The time ran out before all was pruned: run it again.")
    return 0 if result.finished else 1


def _rebuild(options: argparse.Namespace) -> int:
    from pramaan_pipelines.framer.healing import FrameHealing

    with _database() as database:
        found = FrameHealing(database).request_rebuild(options.firm, options.matter)
    told = "Owed: the healing sensor builds it, once the firm consents and a place is free."
    _say(told if found else "This firm has no such frame job, or the matter is gone.")
    return 0 if found else 1


def _complete(options: argparse.Namespace) -> int:
    from pramaan_pipelines.framer.completion import complete_frame

    with _database() as database:
        held = complete_frame(
            database,
            firm_id=options.firm,
            agent_run_id=options.agent_run,
            succeeded=not options.failed,
        )
    return _told_of_lease(held=held)


def _heartbeat(options: argparse.Namespace) -> int:
    from pramaan_pipelines.framer.completion import extend_frame_lease

    with _database() as database:
        held = extend_frame_lease(database, firm_id=options.firm, agent_run_id=options.agent_run)
    return _told_of_lease(held=held)


def _told_of_lease(*, held: bool) -> int:
    _say("Done." if held else "This agent run no longer holds its job; nothing changed.")
    return 0 if held else 1


@contextmanager
def _database() -> Iterator["Database"]:
    from pramaan_pipelines.store.database import Database

    _load_env()
    database = Database.connect(Settings.load().database_url)
    try:
        yield database
    finally:
        database.close()


def _metrics(options: argparse.Namespace) -> int:
    from pramaan_pipelines.gauges.process import serve
    from pramaan_pipelines.telemetry.logs import configure_logging

    _load_env()
    settings = Settings.load()
    configure_logging(settings.pramaan_log_format)
    serve(settings, listen=options.listen, every_seconds=options.every, say=_say)
    return 0


def _dev(options: argparse.Namespace) -> int:
    from pramaan_pipelines.local.dev import dev

    return dev(_state(), ENV_FILE, dict(os.environ), port=options.port)


def _demo(options: argparse.Namespace) -> int:
    from pramaan_pipelines.local.demo import demo

    return demo(_state() / "demo", as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
