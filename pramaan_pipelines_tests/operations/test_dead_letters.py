"""Dead letters: looked at without a trace, sent again without a loss (H13)."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from pydantic import SecretStr

from pramaan_pipelines.contracts.outcomes import RefusalReason
from pramaan_pipelines.errors import DestinationError
from pramaan_pipelines.framer.dead_letters import DeadLetters
from pramaan_pipelines.letter_boxes import open_letter_box
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.messaging.letters import Letter, Which
from pramaan_pipelines.messaging.publisher import OutboundMessage, SendResult, SendStatus
from pramaan_pipelines.messaging.queues import DeadLetterQueue
from pramaan_pipelines.orchestration.framer import run_request
from pramaan_pipelines.orchestration.names import DO_IT
from pramaan_pipelines.settings import Settings
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.operations.bench import (
    BOXES,
    HOSTILE,
    Letters,
    dead_of,
    press,
    source_of,
    stand_on,
)
from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.support.aws import free_port
from pramaan_pipelines_tests.support.proxy import HoldingProxy
from pramaan_pipelines_tests.support.world import TRACEPARENT

STARTED = ("started", "release")
KILLED_HALF_WAY = """
from pramaan_pipelines.cli import main
from pramaan_pipelines.messaging import letters
letters.HOLD_SECONDS = 1
main(["dead-letters", "--redrive", "passing"])
"""


def three_kinds(letters: Letters) -> dict[str | None, str]:
    """Let one letter of each refusal and one good one stand there; by reason."""
    world = letters.rail.world
    kinds: dict[str | None, str] = {
        None: letters.good(),
        RefusalReason.MALFORMED: HOSTILE,
        RefusalReason.WRONG_ENVIRONMENT: letters.good(environment="prod"),
        RefusalReason.SUBJECT_NOT_VISIBLE: letters.good(firm_id=str(world.firm_b)),
    }
    letters.put(*kinds.values())
    return kinds


def by_reason(found: list[Letter]) -> dict[str | None, Letter]:
    return {letter.reason: letter for letter in found}


class Queue:
    """A framer queue that answers as it is told, and keeps what it was given."""

    destination = "framer"

    def __init__(self, answer: Callable[[OutboundMessage], SendStatus]) -> None:
        self.answer = answer
        self.got: list[OutboundMessage] = []

    def send(self, messages: Any, *, deadline: float) -> list[SendResult]:
        del deadline
        self.got += messages
        return [SendResult(self.answer(message), "told by the test") for message in messages]

    def verify(self) -> None: ...


def redriven_to(queue: Queue, letters: Letters) -> DeadLetters:
    return DeadLetters(letters.queue, queue, letters.rail.world.database, "test")


def test_h13_a_good_message_that_crashed_three_times_is_told_from_a_refused_one_and_redriven(
    letters: Letters,
) -> None:
    """Three workers died before the claim; the queue knows no reason, the view does."""
    rail = letters.rail
    good = letters.good()
    rail.send(good, HOSTILE)
    for _ in range(3):
        for message in rail.queue.receive(10, 0):
            rail.queue.hand_back(message.receipt_handle)
    assert rail.queue.receive(10, 0) == []
    assert (rail.depth().total, letters.depth.total) == (0, 2)
    found = by_reason(letters.view.redrive(Which.PASSING, dry_run=False))
    assert set(found) == {None, RefusalReason.MALFORMED}
    assert (found[None].redriven, found[RefusalReason.MALFORMED].redriven) == (True, False)
    assert found[None].event_id == json.loads(good)["event_id"]
    assert letters.bodies() == [HOSTILE]
    assert rail.run(rail.receive()).outcome == STARTED


def test_h12_a_redriven_message_has_a_run_key_of_its_own(letters: Letters) -> None:
    """A used run_key blocks for ever; the queue gives the copy a new id, and counts from one."""
    rail = letters.rail
    rail.send(letters.good())
    message = rail.receive()
    letters.put(message.body)
    rail.queue.delete(message.receipt_handle)
    letters.view.redrive(Which.PASSING, dry_run=False)
    again = rail.receive()
    assert run_request(again).run_key != run_request(message).run_key
    assert again.body == message.body
    assert rail.run(again).outcome == STARTED


def test_a_look_tells_each_letter_s_reason_and_changes_nothing(letters: Letters) -> None:
    kinds = three_kinds(letters)
    for _ in range(2):  # given back at once: the second look finds the same
        found = letters.view.look()
        assert {letter.reason for letter in found} == set(kinds)
        assert not any(letter.redriven for letter in found)
    assert (letters.depth.visible, letters.depth.in_flight) == (4, 0)
    assert letters.rail.depth().total == 0
    assert letters.bodies() == sorted(kinds.values())


def test_no_body_is_ever_shown(letters: Letters) -> None:
    three_kinds(letters)
    shown = repr(letters.view.look())
    assert "privileged" not in shown
    assert "hunter2" not in shown
    assert TRACEPARENT not in shown
    (malformed,) = [x for x in letters.view.look() if x.reason == RefusalReason.MALFORMED]
    assert malformed.event_id is None
    assert malformed.places


def test_a_letter_is_judged_by_what_is_true_now(letters: Letters) -> None:
    """A matter that came late, after its event was refused three times."""
    rail, matter = letters.rail, uuid4()
    letters.put(letters.good(subject={"type": "matter", "id": str(matter)}))
    (before,) = letters.view.look()
    assert before.reason == RefusalReason.SUBJECT_NOT_VISIBLE
    assert not letters.view.redrive(Which.PASSING, dry_run=False)[0].redriven
    rail.world.god.execute(
        "INSERT INTO matters (id, firm_id, title) VALUES (%s, %s, 'A matter')",
        [matter, rail.world.firm_a],
    )
    assert letters.view.redrive(Which.PASSING, dry_run=False)[0].redriven
    assert rail.run(rail.receive()).outcome == STARTED


def test_all_sends_the_refused_ones_too_where_the_service_has_no_move_task(
    letters: Letters,
) -> None:
    """The emulator has none: the fallback receives, sends and deletes."""
    kinds = three_kinds(letters)
    found = letters.view.redrive(Which.ALL, dry_run=False)
    assert [letter.redriven for letter in found] == [True] * 4
    assert letters.depth.total == 0
    assert sorted(m.body for m in letters.rail.queue.receive(10, 0)) == sorted(kinds.values())


def test_a_dry_redrive_sends_nothing(letters: Letters) -> None:
    three_kinds(letters)
    for which in Which:
        assert not any(letter.redriven for letter in letters.view.redrive(which, dry_run=True))
    assert (letters.depth.visible, letters.rail.depth().total) == (4, 0)


def test_more_letters_than_one_receive_holds_are_each_met_once(letters: Letters) -> None:
    bodies = [letters.good() for _ in range(25)]
    letters.put(*bodies)
    assert len({letter.message_id for letter in letters.view.look()}) == 25
    found = letters.view.redrive(Which.PASSING, dry_run=False)
    assert len(found) == 25
    assert all(letter.redriven for letter in found)
    assert (letters.depth.total, letters.rail.depth().total) == (0, 25)


def test_a_limit_is_the_most_that_is_looked_at_or_sent(letters: Letters) -> None:
    letters.put(*(letters.good() for _ in range(5)))
    assert len(letters.view.look(3)) == 3
    for which in Which:
        assert len(letters.view.redrive(which, dry_run=False, limit=2)) == 2
    assert (letters.depth.visible, letters.rail.depth().total) == (1, 4)


def test_trace_and_type_go_along(letters: Letters) -> None:
    sqs = letters.rail.queue._client
    sqs.send_message(
        QueueUrl=letters.queue._queue_url,
        MessageBody=letters.good(),
        MessageAttributes={
            "event_type": {"DataType": "String", "StringValue": "matter.created"},
            "traceparent": {"DataType": "String", "StringValue": TRACEPARENT},
        },
    )
    letters.view.redrive(Which.PASSING, dry_run=False)
    assert letters.rail.receive().attributes == {
        "event_type": "matter.created",
        "traceparent": TRACEPARENT,
    }


def test_a_body_that_the_queue_refuses_stays_and_its_neighbours_go(letters: Letters) -> None:
    bodies = [letters.good() for _ in range(3)]
    letters.put(*bodies)
    queue = Queue(
        lambda message: SendStatus.IMPOSSIBLE if message.body == bodies[1] else SendStatus.ACCEPTED
    )
    found = redriven_to(queue, letters).redrive(Which.PASSING, dry_run=False)
    assert sorted(letter.redriven for letter in found) == [False, True, True]
    assert letters.depth.visible == 1
    assert letters.bodies() == [bodies[1]]


def test_a_queue_that_is_out_is_asked_once_and_everything_stays(letters: Letters) -> None:
    """Each ask may wait for its bound; a thousand of them would outlast the run."""
    bodies = [letters.good() for _ in range(12)]
    letters.put(*bodies)
    queue = Queue(lambda _: SendStatus.UNAVAILABLE)
    found = redriven_to(queue, letters).redrive(Which.PASSING, dry_run=False)
    assert len(queue.got) == 1
    assert [letter.redriven for letter in found] == [False] * 12
    assert letters.depth.visible == 12


@pytest.mark.parametrize("redrive", [False, True])
def test_a_look_that_breaks_gives_the_letters_back_at_once(
    letters: Letters, *, redrive: bool
) -> None:
    letters.put(*(letters.good() for _ in range(12)))
    nowhere = Database.connect(SecretStr(f"postgresql://nobody@127.0.0.1:{free_port()}/none"))
    view = DeadLetters(letters.queue, Queue(lambda _: SendStatus.ACCEPTED), nowhere, "test")
    with pytest.raises(Exception, match="gives no connection"):
        view.redrive(Which.PASSING, dry_run=not redrive)
    nowhere.close()
    assert (letters.depth.visible, letters.depth.in_flight) == (12, 0)


def test_a_redrive_that_cannot_delete_repeats_and_the_copy_is_a_duplicate(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    rail = letters.rail
    letters.put(letters.good())
    with monkeypatch.context() as patched:

        def out(*_: object) -> bool:
            raise DestinationError("out.")

        patched.setattr(QueueConsumer, "delete", out)
        with pytest.raises(DestinationError):
            letters.view.redrive(Which.PASSING, dry_run=False)
    assert (letters.depth.visible, rail.depth().visible) == (1, 1)
    assert letters.view.redrive(Which.PASSING, dry_run=False)[0].redriven
    outcomes = [rail.run(rail.receive()).outcome for _ in range(2)]
    assert outcomes == [STARTED, ("duplicate", "dedupe")]
    assert (letters.depth.total, rail.depth().total) == (0, 0)


def test_a_redrive_killed_between_send_and_delete_loses_nothing(
    letters: Letters, proxy: HoldingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL: the letter comes back by its time-out, and the copy ends as a duplicate."""
    rail = letters.rail
    letters.put(letters.good())
    environment = {**os.environ, "AWS_ENDPOINT_URL": proxy.url}
    with proxy.holding("DeleteMessage", forward_first=False) as hold:
        child = subprocess.Popen([sys.executable, "-c", KILLED_HALF_WAY], env=environment)
        assert hold.reached.wait(60)
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    assert (letters.depth.total, rail.depth().visible) == (1, 1)
    end = time.monotonic() + 10
    while not letters.depth.visible and time.monotonic() < end:
        time.sleep(0.1)
    monkeypatch.setattr("pramaan_pipelines.messaging.letters.HOLD_SECONDS", 1)
    assert [x.redriven for x in letters.view.redrive(Which.PASSING, dry_run=False)] == [True]
    outcomes = [rail.run(rail.receive()).outcome for _ in range(2)]
    assert outcomes == [STARTED, ("duplicate", "dedupe")]
    assert (letters.depth.total, rail.depth().total) == (0, 0)


def through(proxy: HoldingProxy, rail: Rail) -> Rail:
    settings = rail.settings.model_copy(update={"aws_endpoint_url": proxy.url})
    return Rail(Settings.model_validate(settings), rail.world, rail.instance, rail.agent)


def test_on_a_service_with_move_tasks_all_is_one_call_and_nothing_is_sent_by_us(
    letters: Letters, proxy: HoldingProxy
) -> None:
    """StartMessageMoveTask, answered by the protocol's stand-in."""
    three_kinds(letters)
    asked: list[dict[str, Any]] = []

    def start(request: bytes) -> tuple[int, object]:
        asked.append(json.loads(request))
        return 200, {"TaskHandle": "a-task"}

    aws = Letters(through(proxy, letters.rail))
    with proxy.answering("StartMessageMoveTask", start):
        found = aws.view.redrive(Which.ALL, dry_run=False)
    assert [letter.redriven for letter in found] == [True] * 4
    (request,) = asked
    assert request["SourceArn"].endswith(":pramaan-framer-events-dlq-test")
    assert (letters.depth.visible, letters.rail.depth().total) == (4, 0)  # the task's to move


@pytest.mark.parametrize("call", ["passing", "dry", "limited"])
def test_a_move_task_is_never_asked_for_more_than_was_asked_for(
    letters: Letters, proxy: HoldingProxy, call: str
) -> None:
    """It moves everything there is: refused ones too, and past any limit."""
    three_kinds(letters)
    aws = Letters(through(proxy, letters.rail))
    with proxy.answering("StartMessageMoveTask", lambda _: (500, {"__type": "InternalFailure"})):
        found = aws.view.redrive(
            Which.PASSING if call == "passing" else Which.ALL,
            dry_run=call == "dry",
            limit=2 if call == "limited" else 1000,
        )
    assert sum(letter.redriven for letter in found) == {"passing": 1, "dry": 0, "limited": 2}[call]


def test_a_move_task_that_is_refused_is_an_error_and_moves_nothing(
    letters: Letters, proxy: HoldingProxy
) -> None:
    three_kinds(letters)
    aws = Letters(through(proxy, letters.rail))
    refused = (400, {"__type": "com.amazonaws.sqs#AccessDeniedException", "message": "no"})
    with (
        proxy.answering("StartMessageMoveTask", lambda _: refused),
        pytest.raises(DestinationError, match="AccessDenied"),
    ):
        aws.view.redrive(Which.ALL, dry_run=False)
    assert (letters.depth.visible, letters.rail.depth().total) == (4, 0)


def test_the_job_is_dry_by_default_and_shows_reasons_and_no_body(letters: Letters) -> None:
    three_kinds(letters)
    run = press(letters.rail.instance, "redrive_dead_letters_job", "redrive_dead_letters", {})
    assert run.green
    counts = {key: run.told[key] for key in ("looked_at", "would_pass_now", "refused", "redriven")}
    assert counts == {"looked_at": 4, "would_pass_now": 1, "refused": 3, "redriven": 0}
    assert DO_IT in run.logs
    for reason in (*RefusalReason, "would pass now"):
        assert str(reason) in run.told["letters"]
    stored = run.told["letters"] + run.logs
    assert "privileged" not in stored
    assert "hunter2" not in stored
    assert (letters.depth.visible, letters.rail.depth().total) == (4, 0)


@pytest.mark.parametrize(("which", "sent"), [("PASSING", 1), ("ALL", 4)])
def test_the_job_redrives_what_it_is_asked_for(letters: Letters, which: str, sent: int) -> None:
    three_kinds(letters)
    config = {"which": which, "dry_run": False}
    run = press(letters.rail.instance, "redrive_dead_letters_job", "redrive_dead_letters", config)
    assert run.green
    assert DO_IT not in run.logs
    assert (run.told["redriven"], letters.rail.depth().total) == (sent, sent)
    assert letters.depth.visible == 4 - sent


def test_the_job_is_red_where_the_queue_took_less_than_was_asked_for(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_kinds(letters)

    def out(*_: object, **__: object) -> list[SendResult]:
        return [SendResult(SendStatus.UNAVAILABLE, "out")]

    monkeypatch.setattr("pramaan_pipelines.messaging.sqs.QueueClient.send", out)
    config = {"dry_run": False}
    run = press(letters.rail.instance, "redrive_dead_letters_job", "redrive_dead_letters", config)
    assert not run.green
    assert "not taken again: 1 dead letter, which stay where they are. Look at" in run.failure
    assert letters.depth.visible == 4


@pytest.mark.parametrize("name", [*DeadLetterQueue])
def test_the_letters_of_every_queue_are_shown_and_go_back_to_where_they_came_from(
    letters: Letters, name: DeadLetterQueue
) -> None:
    """With a dry run first, which moves nothing."""
    rail = letters.rail
    good = letters.good() if name not in BOXES else json.dumps({"event_id": str(uuid4())})
    stand_on(rail, name, good, HOSTILE)
    dry = press(
        rail.instance, "redrive_dead_letters_job", "redrive_dead_letters", {"queue": name.name}
    )
    assert dry.green
    assert (dry.told["looked_at"], dry.told["would_pass_now"]) == (2, 1)
    assert json.loads(good)["event_id"] in dry.told["letters"]
    assert "hunter2" not in repr(dry.told)
    assert "privileged" not in repr(dry.told)
    assert source_of(rail, name).depth().total == 0
    config = {"queue": name.name, "dry_run": False}
    done = press(rail.instance, "redrive_dead_letters_job", "redrive_dead_letters", config)
    assert done.green
    (back,) = source_of(rail, name).receive(10, 2)
    assert json.loads(back.body) == json.loads(good)
    assert back.attributes["event_type"] == "x.y"
    assert dead_of(rail, name).depth().total == 1
    for other in set(DeadLetterQueue) - {name}:
        assert dead_of(rail, other).depth().total == 0


def test_what_the_rule_could_not_deliver_is_moved_one_by_one(
    letters: Letters, proxy: HoldingProxy
) -> None:
    """SQS moves only what came from a queue of its own, and refuses the rest."""
    rail = letters.rail
    stand_on(rail, DeadLetterQueue.UNDELIVERABLE, letters.good(), letters.good())
    through = rail.settings.model_copy(update={"aws_endpoint_url": proxy.url})
    box = open_letter_box(DeadLetterQueue.UNDELIVERABLE, through, rail.world.database)
    asked: list[bytes] = []

    def refused(body: bytes) -> tuple[int, object]:
        asked.append(body)
        return 400, {"__type": "com.amazonaws.sqs#InvalidParameterValue"}

    with proxy.answering("StartMessageMoveTask", refused):
        redriven = box.redrive(Which.ALL, dry_run=False)
    assert [letter.redriven for letter in redriven] == [True, True]
    assert asked == []
    assert source_of(rail, DeadLetterQueue.UNDELIVERABLE).depth().total == 2
