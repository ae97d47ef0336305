"""Nothing that a stranger wrote is stored: not in run config, tags, events or metadata."""

import json
from collections.abc import Iterator

from pramaan_pipelines_tests.orchestration.bench import Rail
from pramaan_pipelines_tests.support.world import TRACESTATE, body

MARK = "Privileged-And-Confidential"


def hostile(good: str) -> Iterator[tuple[str, str]]:
    """Yield bodies that carry the mark, each in another place."""
    whole = json.loads(good)
    yield "the whole text", MARK
    yield "a text in JSON", json.dumps(MARK)
    yield "a list", json.dumps([MARK])
    yield "a duplicate key", f'{{"{MARK}": 1, "{MARK}": 2}}'
    yield "too large", json.dumps({**whole, "title": MARK * 20_000})
    yield "an unknown field's name", json.dumps({**whole, MARK: 1})
    yield "an unknown field's value", json.dumps({**whole, "title": MARK})
    for name in whole:
        yield name, json.dumps({**whole, name: MARK})
        yield f"within {name}", json.dumps({**whole, name: {MARK: [MARK]}})
    for name in ("type", "id", "title", MARK):
        subject = {**whole["subject"], name: MARK}
        yield f"subject.{name}", json.dumps({**whole, "subject": subject})
    wrapper = {"detail-type": "matter.created", "detail": whole}
    yield "the wrapper's source", json.dumps({**wrapper, "source": MARK, MARK: MARK})
    yield "the wrapper's type", json.dumps({**wrapper, "detail-type": MARK})
    yield "the wrapper's detail", json.dumps({**wrapper, "detail": MARK})
    yield "within the detail", json.dumps({**wrapper, "detail": {**whole, "title": MARK}})
    # A pair that is well formed travels on as it is: that is what a tracestate is for.
    yield "tracestate", json.dumps({**whole, "tracestate": f"a sentence, {MARK}={MARK}"})


def test_no_free_text_of_a_message_is_stored_anywhere(rail: Rail) -> None:
    """Ids and a well-formed trace context are all that leaves the sensor and its run."""
    matter = rail.world.matter(rail.world.firm_a)
    leaks = []
    for place, text in hostile(body(rail.world.firm_a, matter)):
        assert MARK in text, place
        rail.send(text)
        message = rail.receive()
        run = rail.run(message)
        if MARK.lower() in run.everything_stored().lower():
            leaks.append(place)
        rail.queue.delete(message.receipt_handle)
    assert leaks == []


def test_a_valid_pointer_is_stored_as_it_came(rail: Rail) -> None:
    """What the test above looks at does hold what may be there: it would see a mark too."""
    matter = rail.world.matter(rail.world.firm_a)
    run = rail.deliver(body(rail.world.firm_a, matter))
    stored = run.everything_stored()
    assert str(matter) in stored
    assert TRACESTATE in stored
