"""The bench measures what it says, at a tiny size: never a time, always the ledger."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.outbox.lanes import DOCUMENT_INGEST
from pramaan_pipelines_tests.bench import (
    claims,
    drain_bus,
    drain_null,
    drain_queue,
    idle,
    imports,
    latency,
    memory,
    peers,
    runs,
    sent_rows,
)
from pramaan_pipelines_tests.bench.drains import Drainer
from pramaan_pipelines_tests.bench.ledger import Ledger, account
from pramaan_pipelines_tests.bench.measure import Better, Figure, Line, Plain, Sample, interleaved
from pramaan_pipelines_tests.bench.report import markdown, write_json
from pramaan_pipelines_tests.bench.site import Site, Spoken


@pytest.fixture
def place(
    server: EmbeddedPostgres, template: str, tmp_path: Path, aws_environment: str
) -> Iterator[Site]:
    """A site on the session's server."""
    del template, aws_environment
    with ExitStack() as ending:
        sink = Spoken([sys.executable, "-m", "pramaan_pipelines_tests.bench.sink"])
        ending.callback(sink.close)
        url = f"http://127.0.0.1:{sink.hear()}"
        yield Site(tmp_path, quick=True, server=server, sink=sink, sink_url=url, ending=ending)


def test_the_drains_lose_and_double_nothing_and_neither_does_what_they_are_compared_with(
    place: Site,
) -> None:
    lines = [
        *drain_null.lines(place, 25),
        *drain_queue.lines(place, 25, [], (drain_queue.SLOW,)),
        *drain_bus.lines(place, 25),
    ]
    assert [line.what for line in lines] == [
        "drain of document_ingest to a null sink",
        "drain of domain_event to a null sink",
        "drain to SQS, 10 ms",
        "drain to EventBridge, 10 ms",
    ]
    for line in lines:
        assert line.other is not None
        for figure in (line.ours, line.other):
            assert len(figure.samples) == place.rounds
            assert (figure.lost, figure.duplicated) == (0, 0)
            assert min(figure.values) > 0


def test_sent_rows_memory_and_claims_are_measured_on_what_arrived(place: Site) -> None:
    lines = [
        *sent_rows.lines(place, (100,), while_held=50, rounds=1),
        *memory.lines(place, (50, 100)),
        *claims.lines(place, (1,), 0.1),
    ]
    # A claim has a second line where there is a pgbench.
    assert list(dict.fromkeys(line.what for line in lines)) == [
        "one batch, 100 rows sent before",
        "one batch beside a transaction held open",
        "peak memory of a relay, 100 rows",
        "peak memory of a relay, 10 rows of 250 kB",
        "claims, 1 contending for one matter",
        "claims, 1 contending for many matters",
    ]
    for line in lines:
        assert line.sound
        assert min(line.ours.values) > 0
        assert line.other is not None
        assert min(line.other.values) > 0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_lines_of_a_real_daemon_lose_and_double_nothing(place: Site) -> None:
    """The peers too: with their installation, minutes."""
    lines = [
        *latency.lines(place, 3),
        *idle.lines(place, 10, warm=20),
        *runs.lines(place, 2),
        *drain_queue.lines(place, 25, peers.installed(place.folder)),
        *imports.lines(place),
    ]
    for line in lines:
        assert line.sound
        assert line.other is None or (line.other.lost, line.other.duplicated) == (0, 0)
    idle_runs = next(line for line in lines if line.what == "idle: runs started")
    assert idle_runs.ours.values == [0]


def test_a_relay_that_loses_a_row_and_doubles_another_is_shown_as_such_and_meets_nothing(
    place: Site,
) -> None:
    drainer = Drainer("losing", place, DOCUMENT_INGEST, "null", 25, module="losing")
    (figure,) = interleaved([drainer], 2)
    assert (figure.lost, figure.duplicated) == (2, 2)
    line = Line("a drain", "rows/s", figure, figure, reach=0.5)
    assert line.met is False
    assert "2 / 2" in markdown([line])


def test_a_row_that_was_sent_and_is_not_marked_counts_as_lost(place: Site) -> None:
    drainer = Drainer("ours", place, DOCUMENT_INGEST, "null", 3, left="SELECT 3")
    assert drainer.once().lost == 3


def test_an_account_counts_what_is_lost_doubled_and_unknown() -> None:
    assert account(["a", "b", "c"], ["a", "a", "a", "c", "x"]) == Ledger(1, 2, 1)
    assert account(["a"], ["a"]) == Ledger(0, 0, 0)


def test_contenders_go_in_turn_and_a_ratio_is_of_rounds() -> None:
    told: list[str] = []
    values = {"a": iter([10.0, 20.0, 90.0]), "b": iter([5.0, 20.0, 30.0])}

    def going(name: str) -> Plain:
        def run() -> Sample:
            told.append(name)
            return Sample(next(values[name]))

        return Plain(name, run)

    ours, other = interleaved([going("a"), going("b")], 3)
    assert "".join(told) == "abbaab"
    line = Line("w", "u", ours, other, reach=2.0)
    assert line.ratios == [2.0, 1.0, 3.0]
    assert line.met is True


@pytest.mark.parametrize(
    ("better", "reach", "met"),
    [
        (Better.MORE, 1.5, True),
        (Better.MORE, 2.5, False),
        (Better.LESS, 1.5, False),
        (Better.LESS, 2.5, True),
        (Better.MORE, None, None),
    ],
)
def test_a_line_says_whether_it_met_what_it_had_to(
    better: Better, reach: float | None, *, met: bool | None
) -> None:
    ours, other = Figure("ours", (Sample(4.0),)), Figure("other", (Sample(2.0),))
    line = Line("w", "u", ours, other, better, reach)
    assert line.met is met
    lossy = Line("w", "u", Figure("ours", (Sample(4.0, lost=1),)), other, better, reach)
    assert lossy.met is not True


def test_the_report_holds_every_sample(tmp_path: Path) -> None:
    line = Line("w", "rows/s", Figure("ours", (Sample(4.0), Sample(6.0, 1, 2))), note="said so")
    path = tmp_path / "deep" / "bench.json"
    write_json([line], path)
    (told,) = json.loads(path.read_text())["lines"]
    assert told["ours"]["values"] == [4.0, 6.0]
    assert (told["ours"]["lost"], told["ours"]["duplicated"]) == (1, 2)
    table = markdown([line])
    assert "| w | rows/s | 5 (4 to 6) |" in table
    assert "- w: said so." in table
