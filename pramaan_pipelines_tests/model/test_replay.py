"""The traces that break a protocol without a rule, on the real code, which has them all.

Where the real code stands by its rule, a trace's later steps may be impossible: those are passed
over. Then everything comes to its end without a further fault. After each step the tables are read
back and the model's invariants are asked about them.
"""

import random

import pytest

from pramaan_pipelines_tests.model.broken import CASES, counterexample
from pramaan_pipelines_tests.model.invariants import sent_events
from pramaan_pipelines_tests.model.replay import Replay
from pramaan_pipelines_tests.model.rules import Setting
from pramaan_pipelines_tests.model.search import transitions
from pramaan_pipelines_tests.model.state import Job, State
from pramaan_pipelines_tests.support.world import World


@pytest.mark.parametrize("rule", CASES)
def test_the_trace_that_breaks_a_world_without(rule: str, world: World) -> None:
    replay = Replay(world, CASES[rule].setting)
    replay.follow(counterexample(rule))
    replay.settle()
    made = [run for run in replay.state.agent_runs if run.status != "cancelled" or run.invoked]
    events = sent_events(replay.model, replay.state).bit_count()
    assert len(made) <= events + replay.state.faults, replay.told()


WALKS = {
    "two events": Setting(events=(0, 1), faults=3, revocations=1),
    "the same event twice": Setting(events=(0, 0), faults=3, revocations=1),
    "an agent of its own": Setting(events=(0, 1), faults=3, revocations=1, accepted=True),
    "three events, one twice": Setting(events=(0, 1, 1, 2), faults=4, at_once=3),
    "a forged one, the matter goes": Setting(
        events=(0, 1), forged=frozenset({1}), vanishes=True, revocations=1
    ),
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", WALKS)
def test_the_real_code_walks_as_the_model_says(name: str, seed: int, world: World) -> None:
    """Any step that the model allows leads the real code to where the model says, at any time."""
    walk(world, WALKS[name], seed, 80)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
@pytest.mark.parametrize("name", WALKS)
def test_the_real_code_walks_as_the_model_says_at_length(
    name: str, seed: int, world: World
) -> None:
    walk(world, WALKS[name], seed, 200)


def walk(world: World, setting: Setting, seed: int, most: int) -> None:
    chance, replay = random.Random(seed), Replay(world, setting)  # noqa: S311 - no secret
    for _ in range(most):
        possible = list(transitions(replay.model, replay.state))
        if not possible:
            break
        step, said, _ = chance.choice(possible)
        assert replay.take(step), f"{step} could not be\n{replay.told()}"
        assert comparable(replay.state) == comparable(said), f"{step}\n{replay.told()}\n{said}"
    replay.settle()


def comparable(state: State) -> State:
    """Drop what the two do not write at the same step: a rolled back claim's skip."""
    return state._replace(job=state.job or Job(), skipped=0, sweep=None)
