"""Each rule of the real code broken alone, and the machine that finds it.

What is broken is a statement or a step of the real code, for the length of one test; the machines
and their model stay as they are.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from hypothesis import settings
from sqlalchemy import TextClause, text
from sqlalchemy.exc import IntegrityError

from pramaan_pipelines.framer import claims, completion, gates, sweep
from pramaan_pipelines.outbox import drain, redrive, selection
from pramaan_pipelines_tests.properties.bench import Bench, Machine
from pramaan_pipelines_tests.properties.machines import (
    FramerMachine,
    OutboxMachine,
    RoadMachine,
    run,
)
from pramaan_pipelines_tests.properties.test_properties import BRIEF, bench

__all__ = ["bench"]

HUNT: Final = settings(BRIEF, max_examples=300, report_multiple_bugs=False)
"""Enough for each to be found within seconds."""

Break = Callable[[pytest.MonkeyPatch], None]
FENCE: Final = "AND claimed_generation = :generation AND run_status = 'running'"


def sql(*modules: Any, name: str, old: str, new: str) -> Break:
    """Return what replaces the pattern `old` in the statement `name` of each of `modules`."""

    def broken(patch: pytest.MonkeyPatch) -> None:
        for module in modules:
            statement = getattr(module, name)
            whole = str(statement) if isinstance(statement, TextClause) else statement
            changed = re.sub(old, new, whole)
            assert changed != whole, "nothing is broken"
            is_text = isinstance(statement, TextClause)
            patch.setattr(module, name, text(changed) if is_text else changed)

    return broken


def without_consent_in_the_claim(patch: pytest.MonkeyPatch) -> None:
    real = gates.load_egress_consent

    def blind(connection: Any, *, firm_id: Any) -> bool:
        caller_is_claim = "claim" in connection.info.get("pramaan_call", "")
        return caller_is_claim or real(connection, firm_id=firm_id)

    in_claim = claims.FrameJobClaims._claim

    def claim(self: Any, connection: Any, *rest: Any) -> Any:
        connection.info["pramaan_call"] = "claim"
        try:
            return in_claim(self, connection, *rest)
        finally:
            connection.info["pramaan_call"] = ""

    patch.setattr(claims, "load_egress_consent", blind)
    patch.setattr(claims.FrameJobClaims, "_claim", claim)


def marked_in_a_transaction_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """Mark everything as sent before it is sent, and commit that."""
    real = drain._send

    def early(publisher: Any, lane: Any, limits: Any, rows: Any) -> Any:
        connection = held[-1]
        ids = [row.id for row in rows]
        connection.exec_driver_sql("SAVEPOINT early")
        connection.execute(text(drain.MARK_SENT.format(table=lane.outbox.table)), {"ids": ids})
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("SELECT set_config('app.is_staff', 'true', true)")
        return real(publisher, lane, limits, rows)

    held: list[Any] = []
    select = selection.Due.select

    def selecting(self: Any, connection: Any, *rest: Any) -> Any:
        held.append(connection)
        return select(self, connection, *rest)

    patch.setattr(selection.Due, "select", selecting)
    patch.setattr(drain, "_send", early)


def answers_are_not_read_one_by_one(patch: pytest.MonkeyPatch) -> None:
    """Take one accepted entry for the whole batch."""
    real = drain._send

    def lumped(publisher: Any, lane: Any, limits: Any, rows: Any) -> Any:
        results = real(publisher, lane, limits, rows)
        return [max(results, key=lambda result: result.status == "accepted")] * len(results)

    patch.setattr(drain, "_send", lumped)


BROKEN: Final[Mapping[str, tuple[type[Machine], Break]]] = {
    "a drain without SKIP LOCKED": (
        OutboxMachine,
        sql(selection, name="SELECT_PENDING", old="FOR UPDATE SKIP LOCKED", new=""),
    ),
    "a drain of every lane": (
        OutboxMachine,
        sql(selection, name="SELECT_PENDING", old="AND event_type = :event_type", new=""),
    ),
    "a drain past every pause": (
        OutboxMachine,
        sql(selection, name="SELECT_PENDING", old=r"next_attempt_at <= now\(\)", new="true"),
    ),
    "the newest first": (
        OutboxMachine,
        sql(
            selection,
            name="SELECT_PENDING",
            old=r"ORDER BY id\s+LIMIT",
            new="ORDER BY id DESC LIMIT",
        ),
    ),
    "marked before it is sent": (OutboxMachine, marked_in_a_transaction_of_its_own),
    "answers in one lump": (OutboxMachine, answers_are_not_read_one_by_one),
    "an outage counts against a row": (
        OutboxMachine,
        sql(
            drain,
            name="MARK_UNSENT",
            old=r"attempts = o.attempts \+ f.blame",
            new="attempts = o.attempts + 1",
        ),
    ),
    "a redrive keeps the attempts": (
        OutboxMachine,
        sql(redrive, name="REDRIVE", old="attempts = 0, ", new=""),
    ),
    "a release without its fence": (
        FramerMachine,
        sql(claims, completion, name="RELEASE", old=FENCE, new=""),
    ),
    "a release of any generation": (
        FramerMachine,
        sql(claims, completion, name="RELEASE", old="AND claimed_generation = :generation", new=""),
    ),
    "a claim that takes a live lease": (
        FramerMachine,
        sql(claims, name="CLAIM", old="secs => :lease", new="secs => :lease - 999999"),
    ),
    "a claim that never takes an expired lease": (
        FramerMachine,
        sql(claims, name="CLAIM", old="secs => :lease", new="secs => :lease + 999999"),
    ),
    "a claim that keeps its generation": (
        FramerMachine,
        sql(claims, name="CLAIM", old=r"\+ 1,", new="+ 0,"),
    ),
    "a claim that leaves rebuild_needed": (
        FramerMachine,
        sql(
            claims,
            name="CLAIM",
            old="rebuild_needed = false",
            new="rebuild_needed = job.rebuild_needed",
        ),
    ),
    "a take-over that leaves the superseded run": (
        FramerMachine,
        sql(claims, name="FAIL_SUPERSEDED", old="AND status = 'running'", new="AND false"),
    ),
    "a healing claim without its need": (
        FramerMachine,
        sql(
            claims,
            name="CLAIM_HEALING",
            old=r"AND \(rebuild_needed OR .*",
            new="AND :max_tries > 0",
        ),
    ),
    "consent not read again in the claim": (FramerMachine, without_consent_in_the_claim),
    "a lost claim that marks nothing": (
        RoadMachine,
        sql(claims, name="MARK_REBUILD", old="rebuild_needed = true", new="rebuild_needed = false"),
    ),
    "a skip that sets a running job to idle": (
        FramerMachine,
        sql(
            claims,
            name="RECORD_SKIP",
            old="DO UPDATE SET",
            new="DO UPDATE SET run_status = 'idle',",
        ),
    ),
    "a sweep without the lease": (
        FramerMachine,
        sql(sweep, name="FAIL_JOB", old="secs => :lease", new="secs => :lease - 999999"),
    ),
    "a sweep that leaves the agent run": (
        FramerMachine,
        sql(sweep, name="FAIL_RUN", old="AND status = 'running'", new="AND false"),
    ),
    "a heartbeat of any generation": (
        FramerMachine,
        sql(
            completion,
            name="EXTEND",
            old=r"AND run.status = 'running'|AND job.claimed_generation = run.claimed_generation",
            new="",
        ),
    ),
    "a failure that counts no try": (
        FramerMachine,
        sql(completion, name="FAIL", old=r"failed_tries = failed_tries \+ 1, ", new=""),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_found(rule: str, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, broken = BROKEN[rule]
    broken(monkeypatch)
    with pytest.raises((AssertionError, IntegrityError)):  # never a statement that is no SQL
        run(machine, bench, HUNT)
