"""The full rule set: nothing that must never be, and from everywhere a way to a good end."""

import pytest

from pramaan_pipelines_tests.model.invariants import Soft
from pramaan_pipelines_tests.model.rules import Model, Rules, Setting
from pramaan_pipelines_tests.model.search import Found, search

TWO = (0, 1)
TWICE = (0, 0)

SETTINGS = {
    "one event, two faults": Setting(),
    "one event, two faults, an agent of its own": Setting(accepted=True),
    "one event, two faults, consent flips": Setting(revocations=1),
    "one event, two faults, consent flips, an agent of its own": Setting(
        revocations=1, accepted=True
    ),
    "one event, a fault, consent comes late": Setting(faults=1, consent=False, revocations=1),
    "one event, two faults, the matter goes": Setting(vanishes=True),
    "one event, a fault, the matter goes, consent flips, an agent of its own": Setting(
        faults=1, vanishes=True, revocations=1, accepted=True
    ),
    "one event, two faults, no healing allowed": Setting(bound=0),
    "two events, two faults, one place": Setting(events=TWO, at_once=1),
    "two events, a fault": Setting(events=TWO, faults=1),
    "two events, two faults": Setting(events=TWO),
    "two events, a fault, an agent of its own": Setting(events=TWO, faults=1, accepted=True),
    "two events, consent flips": Setting(events=TWO, faults=0, revocations=1),
    "the same event twice, two faults": Setting(events=TWICE),
    "the same event twice, a fault, consent flips": Setting(events=TWICE, faults=1, revocations=1),
    "three events at once": Setting(events=(0, 1, 2), faults=0, at_once=3),
    "the second event twice": Setting(events=(0, 1, 1), faults=0),
    "a good event and a forged one, a fault": Setting(events=TWO, forged=frozenset({1}), faults=1),
    "one event, three faults, one place": Setting(faults=3, at_once=1),
}

LARGE = {
    "a good event and a forged one, two faults": Setting(events=TWO, forged=frozenset({1})),
    "one event, three faults": Setting(faults=3),
    "one event, three faults, an agent of its own, consent flips": Setting(
        faults=3, accepted=True, revocations=1
    ),
    "two events, two faults, an agent of its own": Setting(events=TWO, accepted=True),
    "two events, a fault, consent flips": Setting(events=TWO, faults=1, revocations=1),
    "two events, a fault, the matter goes": Setting(events=TWO, faults=1, vanishes=True),
    "two events, three faults, one place": Setting(events=TWO, faults=3, at_once=1),
    "the same event twice, three faults": Setting(events=TWICE, faults=3),
    "the second event twice, a fault": Setting(events=(0, 1, 1), faults=1),
    "three events, a fault": Setting(events=(0, 1, 2), faults=1),
    "two events, two faults, consent flips": Setting(events=TWO, revocations=1),
    "two events, three faults": Setting(events=TWO, faults=3),
    "two events, a fault, three places": Setting(events=TWO, faults=1, at_once=3),
}


def explored(setting: Setting) -> Found:
    found = search(Model(Rules(), setting))
    assert not found.violations, str(found)
    assert found.trap is None, str(found)
    assert found.whole
    assert found.ends > 0
    return found


@pytest.mark.parametrize("name", SETTINGS)
def test_with_every_rule_on_nothing_breaks_and_nothing_is_stuck(name: str) -> None:
    explored(SETTINGS[name])


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", LARGE)
def test_with_every_rule_on_the_larger_ones_hold_too(name: str) -> None:
    explored(LARGE[name])


def test_what_cannot_be_closed_is_reported_and_is_no_violation() -> None:
    found = explored(Setting(faults=1, accepted=True, revocations=1))
    assert set(found.soft) == set(Soft)
    for unclosed, trace in found.soft.items():
        assert trace[-1].does == "invoke", unclosed


def test_without_a_fault_an_event_is_framed_once_by_its_own_run() -> None:
    found = explored(Setting(faults=0))
    assert found.ends == 2  # before it is sent, and framed
    assert found.soft == {}
