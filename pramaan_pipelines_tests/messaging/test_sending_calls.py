"""How many calls are under way at once, and that none starts late."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from pramaan_pipelines.messaging.publisher import Publisher
from pramaan_pipelines_tests.messaging.bench import (
    ACCEPTED,
    REFUSED,
    UNAVAILABLE,
    numbered,
    soon,
    statuses,
)
from pramaan_pipelines_tests.support.stub import Reply, Request, Stub, error, slowly

pytestmark = pytest.mark.usefixtures("one_attempt")


def test_calls_go_out_at_once_but_no_more_than_the_threads(
    publisher: Publisher, stub: Stub
) -> None:
    stub.behaviour = slowly(0.1)
    assert statuses(publisher.send(numbered(100), deadline=soon())) == [ACCEPTED] * 100
    assert stub.peak == 4


def test_callers_at_once_share_the_threads_of_one_and_wait_no_longer_than_the_deadline(
    publisher: Publisher, stub: Stub
) -> None:
    """More calls than pooled connections gain nothing; a call that waited is not sent late."""
    stub.behaviour = slowly(0.3)
    with ThreadPoolExecutor(2) as pool:
        halves = [pool.submit(publisher.send, numbered(40), deadline=soon(0.2)) for _ in range(2)]
        found = Counter(status for half in halves for status in statuses(half.result()))
    assert stub.peak == 4
    assert found == {ACCEPTED: 40, UNAVAILABLE: 40}


def test_no_call_starts_after_the_deadline(publisher: Publisher, stub: Stub) -> None:
    results = publisher.send(numbered(3), deadline=time.monotonic())
    assert statuses(results) == [UNAVAILABLE] * 3
    assert {r.detail for r in results} == {"no time left"}
    assert stub.requests == []


def test_what_the_deadline_left_unsent_is_unavailable(publisher: Publisher, stub: Stub) -> None:
    stub.behaviour = slowly(0.3)
    results = publisher.send(numbered(100), deadline=soon(0.2))
    assert statuses(results) == [ACCEPTED] * 40 + [UNAVAILABLE] * 60
    assert len(stub.requests) == 4


def test_asking_one_by_one_ends_at_the_deadline(publisher: Publisher, stub: Stub) -> None:
    def slow_refusal(_: Request) -> Reply:
        time.sleep(0.15)
        return error(400, "SomethingNew")

    stub.behaviour = slow_refusal
    results = publisher.send(numbered(10), deadline=soon(0.4))
    assert len(stub.requests) in {2, 3}
    assert results[0].status is REFUSED
    assert (results[-1].status, results[-1].detail) == (UNAVAILABLE, "no time left")
