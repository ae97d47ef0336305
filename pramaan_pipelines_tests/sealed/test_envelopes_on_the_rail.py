"""One envelope of each kind through the real sensor, run and dead-letter queue."""

import json
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.orchestration import names
from pramaan_pipelines.orchestration.framer import FRAMER_PLACES
from pramaan_pipelines_tests.orchestration.bench import FramerRun, Rail
from pramaan_pipelines_tests.orchestration.test_framer_sensor import tick
from pramaan_pipelines_tests.sealed.envelopes import KINDS, Body, Ids, good
from pramaan_pipelines_tests.support.world import TRACEPARENT, body

FIRST = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=20,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
UNSENDABLE = {"a raw control character", "invalid UTF-8"}
"""SQS takes neither; the next test answers for it."""


def sendable(text: str) -> bool:
    """Tell whether a queue takes `text`: something, and nothing but text."""
    return bool(text) and text.isprintable() and not any("\ud800" <= c <= "\udfff" for c in text)


def one_of(kind: Body) -> str:
    """Return an envelope of `kind` that a queue takes."""
    found: list[str] = []

    @FIRST
    @given(kind)
    def collect(text: str) -> None:
        if sendable(text):
            found.append(text)

    collect()
    return found[0]


@pytest.fixture
def ids(rail: Rail) -> Ids:
    world = rail.world
    return Ids(world.firm_a, world.matter(world.firm_a), world.firm_b, world.matter(world.firm_b))


def near_the_end(queue: QueueConsumer, count: int) -> None:
    """Receive everything twice and hand it back: what comes next is the last delivery."""
    for _ in range(2):
        held: list[str] = []
        while len(held) < count:
            held += [message.receipt_handle for message in queue.receive(10, 0)]
        for receipt in held:
            queue.hand_back(receipt, 0)


def work_off(rail: Rail) -> dict[str, FramerRun]:
    """Let the sensor tick and its runs run until nothing comes; returns the runs by message."""
    runs: dict[str, FramerRun] = {}
    while True:
        data = tick(rail.instance)
        requests = data.run_requests or []
        assert len(requests) <= FRAMER_PLACES
        for request in requests:
            runs[request.tags[names.TAG_MESSAGE]] = rail.launch(request)
        if not requests:
            assert "the queue is empty" in str(data.skip_message)
            return runs


def test_one_of_each_kind_ends_refused_on_the_dead_letter_queue_and_the_sensor_goes_on(
    rail: Rail, ids: Ids
) -> None:
    """No job row, no run row, no invoke; and the good event behind them all is handled."""
    texts = {
        one_of(kind.make(ids)): title for title, kind in KINDS.items() if title not in UNSENDABLE
    }
    rail.send(*texts)
    near_the_end(rail.queue, len(texts))
    rail.send(last := json.dumps(good(ids)))

    runs = work_off(rail)

    dead = []
    while batch := rail.queue.dead_letters().receive(10, 0):
        dead += batch
    found = {}
    for letter in dead:
        run = runs[letter.message_id]
        found[texts[letter.body]] = (run.failed, run.outcome, run.tags[names.TAG_REASON])
        line, _ = run.failure(run.failed[0])
        assert line.startswith(
            f"refused at {run.failed[0]}: envelope refused ({run.tags[names.TAG_REASON]}) at: "
        )
        assert run.hook_errors() == []
    assert found == {
        title: ([kind.gate], ("refused", kind.gate), str(kind.reason))
        for title, kind in KINDS.items()
        if title not in UNSENDABLE
    }
    assert rail.depth().total == 0
    # The good event alone left something.
    assert [run["trigger_event_id"] for run in rail.world.runs(ids.matter_a)] == [
        json.loads(last)["event_id"]
    ]
    assert rail.world.one("SELECT count(*) FROM agents.agent_run") == 1
    assert rail.world.one("SELECT count(*) FROM ops.matter_frame_jobs") == 1
    assert len(rail.agent.payloads) == 1
    assert len(runs) == len(texts) + 1


@pytest.mark.parametrize("raw", ["\x00", "\x0b", "\udcff"])
def test_what_a_queue_would_never_take_is_refused_too_where_it_comes_all_the_same(
    rail: Rail, ids: Ids, raw: str
) -> None:
    """As a service that checks less than SQS might deliver it."""
    rail.send("x")
    message = rail.receive()
    object.__setattr__(message, "body", json.dumps(good(ids)).replace("matter.", f"matter.{raw}"))
    run = rail.run(message)
    assert (run.failed, run.outcome) == (["parse"], ("refused", "parse"))
    assert rail.world.rows("SELECT 1 FROM agents.agent_run") == []


@pytest.mark.parametrize(
    ("parent", "state"),
    [
        (None, None),
        ({"a": [1]}, ["b"]),
        ("x" * 5_000, "y" * 5_000),
        (TRACEPARENT.upper(), "a=b"),
        ("\ud800\x00", "\x00"),
        (TRACEPARENT, "a sentence and no list"),
        (TRACEPARENT, "k=v," * 100),
    ],
    ids=["none", "objects", "long", "capitals", "half characters", "a sentence", "a long list"],
)
def test_a_hostile_trace_alone_is_no_refusal(
    rail: Rail, ids: Ids, parent: object, state: object
) -> None:
    """EB-04, through the sensor: the event is handled, and what is no trace is carried nowhere."""
    rail.send(
        body(ids.firm_a, ids.matter_a, event_id=str(uuid4()), traceparent=parent, tracestate=state)
    )
    (run,) = work_off(rail).values()
    assert run.outcome == ("started", "release")
    (payload,) = rail.agent.payloads
    assert payload.tracestate is None
    # Where none was carried, the run is found by the trace of its own span.
    carried = run.tags[names.TAG_TRACE] == TRACEPARENT.split("-")[1]
    assert carried is (parent == TRACEPARENT)
    assert rail.depth().total == 0
