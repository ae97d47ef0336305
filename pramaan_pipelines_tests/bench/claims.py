"""Line 7: claims a second by how many contend, on one matter and on many, against the bare upsert.

A lease of 0 s lets a claim win by taking over, in both; one that began before the last winner's
lease did is lost, and counts as decided, in both. The bare one is that one statement, alone in its
transaction, by a superuser past row level security, from pgbench (psycopg where there is none);
ours is the gate: scope, upsert, visibility, consent, the superseded run, the new run row. Between
the two stands the gate's own transaction, its statements from pgbench as the service role: what no
client could do without.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter
from typing import Final

import psycopg
from sqlalchemy import TextClause

from pramaan_pipelines.contracts.invoke import FRAME_AGENT_KEY
from pramaan_pipelines.framer.claims import CLAIM, FAIL_SUPERSEDED, INSERT_RUN
from pramaan_pipelines.framer.gates import CONSENT, SUBJECT
from pramaan_pipelines.store.database import FIRM_ADMIN, SET_SCOPE, TIMEOUTS
from pramaan_pipelines_tests.bench.drains import WORKER_MODULE
from pramaan_pipelines_tests.bench.measure import Contender, Line, Sample, interleaved
from pramaan_pipelines_tests.bench.site import Ground, Site

REACH: Final = 0.8
MATTERS: Final = 2_000
CONTENDERS: Final = (1, 4, 16, 64)

MAKE_MATTERS: Final = """
    INSERT INTO matters (id, firm_id, title)
    SELECT lpad(to_hex(n), 32, '0')::uuid, %s, 'A matter' FROM generate_series(1, %s) AS n
    RETURNING id
"""
UPSERT: Final = """
INSERT INTO ops.matter_frame_jobs AS job
    (firm_id, matter_id, run_status, requested_generation, claimed_generation, claimed_at)
VALUES ('{firm}', lpad(to_hex({number}), 32, '0')::uuid, 'running', 1, 1, now())
ON CONFLICT (firm_id, matter_id) DO UPDATE SET
    run_status = 'running',
    requested_generation = greatest(job.requested_generation, job.claimed_generation) + 1,
    claimed_generation = greatest(job.requested_generation, job.claimed_generation) + 1,
    claimed_at = now(), rebuild_needed = false, pending_event_id = NULL, failed_tries = 0,
    updated_at = now()
WHERE job.run_status <> 'running' OR job.claimed_at < now() - make_interval(secs => 0)
RETURNING claimed_generation
"""


@dataclass
class Claims:
    """Ours: contenders are threads of as many processes as there are cores."""

    site: Site
    ground: Ground
    contenders: int
    matters: list[str]
    seconds: float
    name: str = "ours"

    def __post_init__(self) -> None:
        processes = min(self.contenders, os.cpu_count() or 1)
        threads = self.contenders // processes
        self.workers = []
        for number in range(processes):
            worker = self.site.spoken([sys.executable, "-m", f"{WORKER_MODULE}claims"])
            order = {
                "url": self.ground.url,
                "firm": str(self.ground.world.firm_a),
                "matters": self.matters,
                "contenders": self.contenders,
                "threads": threads,
                "first": number * threads,
                "seconds": self.seconds,
            }
            worker.ask(json.dumps(order))
            self.workers.append(worker)

    def once(self) -> Sample:
        """Claim; each that was won must have its run row. A lost one counts, as in pgbench."""
        _reset(self.ground)
        answers: list[dict[str, list[str]]] = []
        asking = [
            Thread(target=lambda worker=worker: answers.append(worker.ask("go")))
            for worker in self.workers
        ]
        started = perf_counter()
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        seconds = perf_counter() - started
        decided = [run for answer in answers for run in answer["seen"]]
        won = [run for run in decided if run]
        kept = {str(row[0]) for row in self.ground.world.rows("SELECT id FROM agents.agent_run")}
        return Sample(len(decided) / seconds, len(set(won) - kept), len(won) - len(set(won)))


@dataclass
class Bare:
    """The upsert alone."""

    site: Site
    ground: Ground
    contenders: int
    matters: list[str]
    seconds: float
    name: str = field(default="")

    def __post_init__(self) -> None:
        self.pgbench = shutil.which("pgbench")
        self.name = "upsert, pgbench" if self.pgbench else "upsert, psycopg"

    def once(self) -> Sample:
        """Claim."""
        _reset(self.ground)
        rate = self._pgbench(self.pgbench) if self.pgbench else self._psycopg()
        return Sample(rate)

    def _url(self) -> str:
        return self.site.server.admin_url(str(self.ground.world.god.info.dbname))

    def _script(self) -> list[str]:
        return [UPSERT.format(firm=self.ground.world.firm_a, number=":number")]

    def _pgbench(self, program: str) -> float:
        with TemporaryDirectory() as folder:
            script = Path(folder) / "claim.sql"
            lines = [" ".join(statement.split()) for statement in self._script()]
            ends = [line if "\\" in line else f"{line};" for line in lines]
            chosen = f"\\set number random(1, {len(self.matters)})"
            script.write_text("\n".join([chosen, *ends, ""]))
            clients = str(self.contenders)
            jobs = str(min(self.contenders, os.cpu_count() or 1))
            done = subprocess.run(
                [
                    *(program, "-n", "-f", str(script), "-c", clients, "-j", jobs),
                    *("-T", str(max(1, round(self.seconds))), self._url()),
                ],
                env={"PATH": os.environ["PATH"]},
                check=True,
                capture_output=True,
                text=True,
            )
        found = re.search(r"tps = ([\d.]+)", done.stdout)
        assert found, done.stdout
        return float(found[1])

    def _psycopg(self) -> float:
        url = self._url()
        counts = [0] * self.contenders
        until = perf_counter() + self.seconds

        def contend(number: int) -> None:
            with psycopg.connect(url, autocommit=True) as connection:
                at = number
                while perf_counter() < until:
                    at += self.contenders
                    upsert = UPSERT.format(
                        firm=self.ground.world.firm_a, number=at % len(self.matters) + 1
                    )
                    connection.execute(upsert.encode())
                    counts[number] += 1

        threads = [Thread(target=contend, args=(n,)) for n in range(self.contenders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / self.seconds


@dataclass
class Transaction(Bare):
    """The gate's own statements, with nothing around them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name = "its transaction, pgbench"

    def _url(self) -> str:
        return self.ground.url

    def _script(self) -> list[str]:
        firm = self.ground.world.firm_a
        values = {
            "firm_id": f"'{firm}'",
            "matter_id": "lpad(to_hex(:number), 32, '0')::uuid",
            "user_id": "''",
            "role": f"'{FIRM_ADMIN}'",
            "is_staff": "'false'",
            "lease": "0",
            **{name: f"'{value}'" for name, value in TIMEOUTS.items()},
            "run_id": "gen_random_uuid()",
            "event_id": "gen_random_uuid()",
            "agent_key": f"'{FRAME_AGENT_KEY}'",
            "generation": ":claimed_generation",
            "traceparent": "NULL",
            "tracestate": "NULL",
        }

        def filled(statement: TextClause) -> str:
            return re.sub(r"(?<!:):(\w+)", lambda found: values[found[1]], statement.text)

        return [
            "BEGIN",
            filled(SET_SCOPE),
            "\\set claimed_generation 0",
            f"{filled(CLAIM)} \\aset",
            "\\if :claimed_generation",
            *(filled(statement) for statement in (SUBJECT, CONSENT, FAIL_SUPERSEDED, INSERT_RUN)),
            "\\endif",
            "COMMIT",
        ]


def _reset(ground: Ground) -> None:
    ground.world.god.execute("TRUNCATE agents.agent_run, ops.matter_frame_jobs")


def lines(
    site: Site, contenders: tuple[int, ...] | None = None, seconds: float | None = None
) -> list[Line]:
    """Measure hot and spread."""
    ground = site.ground()
    found = ground.world.rows(MAKE_MATTERS, ground.world.firm_a, MATTERS)
    matters = [str(matter) for (matter,) in found]
    seconds = seconds or (1.0 if site.quick else 2.0)
    made = []
    for place, some in (("one matter", matters[:1]), ("many matters", matters)):
        for count in contenders or ((16,) if site.quick else CONTENDERS):
            with site.part() as part:
                contending: list[Contender] = [
                    Claims(part, ground, count, some, seconds),
                    Bare(part, ground, count, some, seconds),
                ]
                if shutil.which("pgbench"):
                    contending.append(Transaction(part, ground, count, some, seconds))
                ours, bare, *transaction = interleaved(contending, part.rounds)
            what = f"claims, {count} contending for {place}"
            made.append(Line(what, "claims/s", ours, bare, reach=REACH))
            made += [Line(what, "claims/s", ours, found) for found in transaction]
    return made
