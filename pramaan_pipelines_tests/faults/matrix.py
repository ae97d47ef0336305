"""What is done to the relays and what must come of it: the tests hold it, docs/faults.md shows it.

Every figure here is compared with what its test measured; none is written down for the page alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pramaan_pipelines.outbox.lanes import DOCUMENT_REGISTRATION, DOMAIN_EVENT

LANES: Final = {"queue": DOCUMENT_REGISTRATION, "bus": DOMAIN_EVENT}
"""One lane to SQS, one to EventBridge."""

ROWS: Final = 12
LATER_CALL: Final = 2
"""The rows are sent in two calls: one of ten, and a later one of these."""
FULL_RUNS: Final = 3
"""Runs that the fault meets as a whole: more than the refusals that would park a row."""

BATCHED_ROWS: Final = 25
BATCH: Final = 10
"""Where a drain is interrupted: in the second of three batches."""

SECRET: Final = "hunter2"
SECRET_URL: Final = f"https://relay:{SECRET}@sqs.example/queue"


@dataclass(frozen=True)
class Measured:
    """The ledger of one case: what was produced against what arrived.

    Attributes:
        rows: events produced.
        lost: events that arrived nowhere.
        parked: rows parked.
        tries: refusals counted against rows.
        duplicates: copies beyond the first, over all events; each bears its event's id.
    """

    rows: int
    lost: int = 0
    parked: int = 0
    tries: int = 0
    duplicates: int = 0


@dataclass(frozen=True)
class Fault:
    """One way in which a destination fails.

    Attributes:
        name: names the test's case.
        title: what happens, in the table.
        effect: what microburst does to the lane's call, for the queue and for the bus.
        says: how the outage that the run tells begins, for the queue and for the bus.
        accepted: True where the destination takes what it gives no answer for.
        read_seconds: the bound of a call, and of one in the run that meets only the later call.
    """

    name: str
    title: str
    effect: dict[str, dict[str, Any]]
    says: dict[str, str]
    accepted: bool = False
    read_seconds: tuple[float, float] = (30.0, 30.0)

    @property
    def waits(self) -> bool:
        """Whether the case waits for the bound of its calls."""
        return self.read_seconds != Fault.read_seconds

    @property
    def expected(self) -> Measured:
        """What the case must measure."""
        unanswered = FULL_RUNS * ROWS + LATER_CALL
        return Measured(ROWS, duplicates=unanswered if self.accepted else 0)


def _error(code: str, status: int) -> dict[str, Any]:
    return {"error": {"code": code, "status": status, "message": f"told by {SECRET_URL}"}}


def _both(value: Any) -> dict[str, Any]:
    return {"queue": value, "bus": value}


FAULTS: Final = (
    Fault(
        "throttled",
        "throttled",
        _both(_error("ThrottlingException", 400)),
        _both("ThrottlingException"),
    ),
    Fault(
        "unavailable",
        "503 from the service",
        _both(_error("ServiceUnavailable", 503)),
        _both("ServiceUnavailable"),
    ),
    Fault(
        "reset",
        "connection reset before the call gets there",
        _both({"reset": True}),
        _both("ConnectionClosedError"),
    ),
    Fault(
        "hung",
        "call hangs and is given up at its bound",
        _both({"timeout_ms": 20_000}),
        _both("ReadTimeoutError"),
        read_seconds=(0.6, 3.0),
    ),
    Fault(
        "expired",
        "credentials expired",
        _both(_error("ExpiredTokenException", 400)),
        _both("ExpiredTokenException"),
    ),
    Fault(
        "missing",
        "the service says that the queue or bus does not exist",
        {
            "queue": _error("QueueDoesNotExist", 400),
            "bus": _error("ResourceNotFoundException", 400),
        },
        {"queue": "QueueDoesNotExist", "bus": "ResourceNotFoundException"},
    ),
    Fault(
        "answer lost",
        "accepted, then the connection breaks in the answer",
        _both({"response": {"abort_bytes": 5}}),
        _both("ConnectionClosedError"),
        accepted=True,
    ),
    Fault(
        "answer garbled",
        "accepted, then half an answer",
        _both({"response": {"truncate_bytes": 9}}),
        _both("not named in the answer"),
        accepted=True,
    ),
    Fault(
        "answer late",
        "accepted after the call was given up at its bound",
        _both({"latency": 4000}),
        _both("ReadTimeoutError"),
        accepted=True,
        read_seconds=(0.6, 3.0),
    ),
)

LOST_ONCE: Final = Measured(ROWS, duplicates=ROWS)
"""Two answers lost once, one a call: the client's one retry sends both calls again, and no more."""


@dataclass(frozen=True)
class DatabaseFault:
    """One way in which Postgres fails a relay.

    Attributes:
        name: names the test's case.
        title: what happens, in the table.
        restart: True where the server is restarted, else its connections are cut.
        sending: True where it happens when the destination has accepted a batch and before the
            rows are marked, else between two runs.
        says: the error that ends the run; None where the run does not notice.
    """

    name: str
    title: str
    restart: bool
    sending: bool
    says: str | None

    @property
    def expected(self) -> Measured:
        """What the case must measure."""
        return Measured(BATCHED_ROWS, duplicates=BATCH if self.sending else 0)


DATABASE_FAULTS: Final = (
    DatabaseFault(
        "cut between runs",
        "connections cut between two runs",
        restart=False,
        sending=False,
        says=None,
    ),
    DatabaseFault(
        "cut while sending",
        "connections cut in a batch, between acceptance and mark",
        restart=False,
        sending=True,
        says="OperationalError",
    ),
    DatabaseFault(
        "restarted between runs",
        "restarted between two runs, one run while it was down",
        restart=True,
        sending=False,
        says="DatabaseUnavailableError",
    ),
    DatabaseFault(
        "restarted while sending",
        "restarted in a batch, between acceptance and mark",
        restart=True,
        sending=True,
        says="OperationalError",
    ),
)


@dataclass(frozen=True)
class Boundary:
    """Where the relay's process is killed, in the second batch.

    Attributes:
        name: names the test's case.
        title: what had happened, in the table.
        committed: rows marked when it died.
        duplicates: copies that follow.
    """

    name: str
    title: str
    committed: int
    duplicates: int

    @property
    def expected(self) -> Measured:
        """What the case must measure."""
        return Measured(BATCHED_ROWS, duplicates=self.duplicates)


BOUNDARIES: Final = (
    Boundary("before send", "rows locked, the call not yet there", BATCH, 0),
    Boundary("after acceptance", "the call accepted, its answer not yet read", BATCH, BATCH),
    Boundary("before commit", "rows marked, the commit not yet there", BATCH, BATCH),
    Boundary("after commit", "committed, the answer not yet read", 2 * BATCH, 0),
)


def relay_section() -> str:
    """Return the relays' half of docs/faults.md."""
    return "\n".join(
        [
            "### A destination that fails",
            "",
            f"{ROWS} rows, sent in two calls. {FULL_RUNS} runs meet the fault in both calls, one "
            "run in the later call only; then it ends. Tries are what could park a row. Calls "
            f"that are accepted without the relay's knowledge are copies: {FULL_RUNS} of all rows "
            f"and one of the {LATER_CALL} in the later call.",
            "",
            *_table(
                ("fault", "lane", "the run says"),
                [
                    ((fault.title, name, f"outage: `{fault.says[name]}`"), fault.expected)
                    for fault in FAULTS
                    for name in LANES
                ]
                + [
                    (("each answer lost once", name, "nothing: the client asked again"), LOST_ONCE)
                    for name in LANES
                ],
            ),
            "",
            "### Postgres that fails",
            "",
            f"{BATCHED_ROWS} rows in batches of {BATCH}; it happens after or in the second.",
            "",
            *_table(
                ("fault", "lane", "the run says"),
                [
                    ((fault.title, name, _raised(fault.says)), fault.expected)
                    for fault in DATABASE_FAULTS
                    for name in LANES
                ],
            ),
            "",
            "### A relay that is killed (SIGKILL)",
            "",
            f"{BATCHED_ROWS} rows in batches of {BATCH}; a process is killed in the second batch, "
            "and another relay finishes.",
            "",
            *_table(
                ("killed when", "lane", "marked by then"),
                [
                    ((boundary.title, name, str(boundary.committed)), boundary.expected)
                    for boundary in BOUNDARIES
                    for name in LANES
                ],
            ),
        ]
    )


def _raised(error: str | None) -> str:
    return f"error: `{error}`" if error else "nothing: it connects anew"


def _table(heads: tuple[str, ...], found: Sequence[tuple[tuple[str, ...], Measured]]) -> list[str]:
    heads = (*heads, "rows", "lost", "parked", "tries", "duplicates")
    lines = [_line(heads), "|" + "---|" * len(heads)]
    for texts, m in found:
        figures = (m.rows, m.lost, m.parked, m.tries, m.duplicates)
        lines.append(_line((*texts, *map(str, figures))))
    return lines


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
