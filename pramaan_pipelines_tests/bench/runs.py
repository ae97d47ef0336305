"""Line 8: framer runs a minute, with their gates, against a stock job of eight ops without any.

The stock job runs by the default launcher and Dagster's own defaults, once with the default
executor and once in process; ours as dagster.yaml says. The storage is the same for all: Postgres
by dagster-postgres, and then SQLite. On Postgres ours goes twice, with the connections kept as
deploy/dagster.yaml has it, and without. The stock runs stand in the queue from the beginning; ours
begin as envelopes on the (emulated) SQS queue and end as agent runs that are committed.
"""

import json
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from uuid import uuid4

import psycopg
from dagster import DagsterInstance, DagsterRunStatus, RunsFilter
from dagster._check import dict_param
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster_shared.yaml_utils import load_yaml_from_path

from pramaan_pipelines.local.aws import EmbeddedAws
from pramaan_pipelines.local.roles import OWNER
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.provision import provision
from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.bench.daemon import daemon, variables, wait_until
from pramaan_pipelines_tests.bench.measure import Contender, Line, Sample, interleaved
from pramaan_pipelines_tests.bench.site import REPOSITORY, Ground, Site
from pramaan_pipelines_tests.support.made_runs import made_run
from pramaan_pipelines_tests.support.storages import pooled
from pramaan_pipelines_tests.support.world import body

STOCK_MODULE = "pramaan_pipelines_tests.bench.stock_location"
REACH = {"stock_in_process": 2.0, "stock_default": 4.0}
FEWER = {"stock_in_process": 4, "stock_default": 16}
"""Of our runs so many: each step of the default executor is a process, and takes seconds."""
NAMES = {"stock_in_process": "stock, in process", "stock_default": "stock, default executor"}
ENDED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]


@dataclass
class Setting:
    """Where Dagster keeps its runs.

    Attributes:
        site: where.
        postgres: in Postgres, in a new database each go; else in SQLite.
    """

    site: Site
    postgres: bool
    folder: Path

    @property
    def name(self) -> str:
        """How the table calls it."""
        return "Postgres" if self.postgres else "SQLite"

    def config(self, base: Path | None, *, kept: bool = False) -> Path:
        """Write a dagster.yaml: what `base` says, or Dagster's own defaults, on this storage.

        Args:
            base: a dagster.yaml.
            kept: on Postgres, with the connections kept.
        """
        given = load_yaml_from_path(str(base)) if base else {"telemetry": {"enabled": False}}
        told = dict(dict_param(given, "given"))
        if self.postgres:
            url = self._new_database()
            told["storage"] = pooled(url) if kept else {"postgres": {"postgres_url": url}}
        path = self.folder / f"{uuid4().hex}.yaml"
        path.write_text(json.dumps(told))
        return path

    def _new_database(self) -> str:
        name = f"dagster_{uuid4().hex[:12]}"
        with psycopg.connect(self.site.server.admin_url(), autocommit=True) as god:
            god.execute(f'CREATE DATABASE "{name}" OWNER {OWNER}')
        self.site.ending.callback(self.site._drop, name)
        return self.site.server.url(OWNER, name)


@dataclass
class Stock:
    """Runs of a stock job, all in the queue from the beginning."""

    job: str
    setting: Setting
    runs: int

    @property
    def name(self) -> str:
        """How the table calls it."""
        return NAMES[self.job]

    def once(self) -> Sample:
        """Submit, and wait for the last."""
        workspace = self.setting.folder / "stock.yaml"
        module = {"module_name": STOCK_MODULE, "working_directory": str(REPOSITORY)}
        workspace.write_text(json.dumps({"load_from": [{"python_module": module}]}))
        config = self.setting.config(None)
        with daemon({}, workspace=workspace, config=config) as instance:
            # One run first: the daemon is up when it has ended.
            self._submit(instance, workspace, 1)
            wait_until(lambda: _ended(instance) == 1)
            started = perf_counter()
            self._submit(instance, workspace, self.runs)
            wait_until(lambda: _ended(instance) == self.runs + 1)
            seconds = perf_counter() - started
            good = instance.get_runs_count(RunsFilter(statuses=[DagsterRunStatus.SUCCESS]))
        return Sample(self.runs / seconds * 60, lost=self.runs + 1 - good)

    def _submit(self, instance: DagsterInstance, workspace: Path, count: int) -> None:
        target = WorkspaceFileTarget([str(workspace)])
        process = WorkspaceProcessContext(instance, target, code_server_log_level="ERROR")
        with ExitStack() as ending:
            # Dagster ends its code servers and does not wait for them.
            ending.callback(process._grpc_server_registry.wait_for_processes)
            context = ending.enter_context(process).create_request_context()
            for _ in range(count):
                run = made_run(instance, context, self.job, DagsterRunStatus.NOT_STARTED)
                instance.submit_run(run.run_id, context)


@dataclass
class Framer:
    """Framer runs, from envelopes on the queue to agent runs that are committed."""

    setting: Setting
    runs: int
    settings: Settings
    ground: Ground
    kept: bool
    seconds: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """How the table calls it."""
        return "ours" if self.kept else "ours, a connection an event"

    def once(self) -> Sample:
        """Send the envelopes, and wait for the last agent run."""
        world = self.ground.world
        sqs = client("sqs", self.settings)
        url = self.settings.require("framer_events_queue_url")
        environment = variables(self.settings, self.ground.url)
        config = self.setting.config(REPOSITORY / "dagster.yaml", kept=self.kept)
        with daemon(environment, config=config):
            # One envelope alone: the daemon is up, and then what one takes when nothing waits.
            for _ in range(2):
                world.god.execute("TRUNCATE agents.agent_run, ops.matter_frame_jobs")
                envelope = body(world.firm_a, world.matter(world.firm_a))
                started = perf_counter()
                sqs.send_message(QueueUrl=url, MessageBody=envelope)
                wait_until(lambda: _succeeded(self.ground) == 1)
                alone = perf_counter() - started
            self.seconds.append(alone)
            world.god.execute("TRUNCATE agents.agent_run, ops.matter_frame_jobs")
            envelopes = [body(world.firm_a, world.matter(world.firm_a)) for _ in range(self.runs)]
            started = perf_counter()
            for envelope in envelopes:
                sqs.send_message(QueueUrl=url, MessageBody=envelope)
            wait_until(lambda: _succeeded(self.ground) == self.runs)
            seconds = perf_counter() - started
            built = world.one("SELECT count(*) FROM agents.agent_run")
        return Sample(self.runs / seconds * 60, duplicated=built - self.runs)


def _succeeded(ground: Ground) -> int:
    query = "SELECT count(*) FROM agents.agent_run WHERE status = 'succeeded'"
    return int(ground.world.one(query))


def _ended(instance: DagsterInstance) -> int:
    return instance.get_runs_count(RunsFilter(statuses=ENDED))


def lines(site: Site, runs: int | None = None) -> list[Line]:
    """Measure on both storages; quick on Postgres alone."""
    runs = runs or (12 if site.quick else 48)
    ground = site.ground()
    made: list[Line] = []
    with ExitStack() as ending:
        folder = Path(ending.enter_context(TemporaryDirectory(prefix="pramaan-bench-runs-")))
        aws = EmbeddedAws(folder / "aws")
        aws.start()
        ending.callback(aws.stop)
        settings = _provisioned(aws, ground)
        for postgres in (True,) if site.quick else (True, False):
            setting = Setting(site, postgres, folder)
            framer = Framer(setting, runs, settings, ground, kept=True)
            contenders: list[Contender] = [
                framer,
                *(Stock(job, setting, max(2, runs // FEWER[job])) for job in REACH),
            ]
            if postgres and not site.quick:
                contenders.append(Framer(setting, runs, settings, ground, kept=False))
            ours, *others = interleaved(contenders, 1 if site.quick else 2)
            alone = ", ".join(f"{seconds:.1f}" for seconds in framer.seconds)
            note = f"one envelope alone, from the queue to its agent run committed: {alone} s"
            for reach, figure in zip_longest(REACH.values(), others):
                what = f"framer runs on {setting.name}"
                made.append(Line(what, "runs/min", ours, figure, reach=reach, note=note))
                note = ""
    return made


def _provisioned(aws: EmbeddedAws, ground: Ground) -> Settings:
    given = {
        "pramaan_environment": "test",
        "database_url": ground.url,
        "aws_endpoint_url": aws.endpoint_url,
        "aws_region": "us-east-1",
    }
    os.environ["AWS_ACCESS_KEY_ID"] = "000000000001"
    outputs = provision(Settings.model_validate(given), visibility_timeout_seconds=120)
    return Settings.model_validate(given | {n.lower(): v for n, v in outputs.items()})
