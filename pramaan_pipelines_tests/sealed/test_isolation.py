"""EB-06: every command of every session against every table, on real row level security."""

import re

import pytest

from pramaan_pipelines_tests.sealed.attack import (
    COMMANDS,
    SESSIONS,
    TARGETS,
    Scene,
    attack,
    session,
)
from pramaan_pipelines_tests.sealed.matrix import MEANINGS, REACH_A, expected
from pramaan_pipelines_tests.support.world import World

EXPECTED = expected()


@pytest.mark.parametrize("name", SESSIONS)
def test_each_cell_of_the_matrix_is_what_postgres_does(scene: Scene, name: str) -> None:
    for variant in SESSIONS[name].variants:
        with session(scene, variant) as connection:
            found = {
                (name, table, command): attack(connection, scene, command, table)
                for table in TARGETS
                for command in COMMANDS
            }
        wrong = {key: (EXPECTED[key], cell) for key, cell in found.items() if cell != EXPECTED[key]}
        assert not wrong, f"with the settings {variant} (expected, found)"


def test_the_matrix_has_no_cell_in_which_a_foreign_session_reaches_a_row_of_firm_a() -> None:
    assert set(EXPECTED) == {(s, t, c) for s in SESSIONS for t in TARGETS for c in COMMANDS}
    for (name, table, command), cell in EXPECTED.items():
        reached = set(re.findall(r"\b[AB]\b", cell))
        if name not in REACH_A:
            assert "A" not in reached, (name, table, command)
        elif name.endswith("staff") and "A" in reached:
            # What the relay and the sweep need, and nothing else.
            assert table.startswith("ops."), (name, table, command)
            assert not command.startswith("INSERT"), (name, table, command)
        if name in {"no firm", "no UUID"}:
            # Never an empty answer, which would look like nothing to do.
            assert cell in {"no-firm", "no-UUID", "denied", "unsupported"}, (name, table, command)
    known = {cell for told in MEANINGS for cell in told.split(", ")}
    assert set(EXPECTED.values()) <= known


def test_the_attacks_leave_nothing_behind(scene: Scene, world: World) -> None:
    """They are rolled back, so that each cell is measured on the same rows."""

    def rows() -> dict[str, list[tuple[object, ...]]]:
        return {t: world.rows(f"SELECT to_jsonb(t) FROM {t} t ORDER BY 1") for t in TARGETS}  # noqa: S608

    before = rows()
    with session(scene, SESSIONS["names A"].variants[0]) as connection:
        for table in TARGETS:
            for command in COMMANDS:
                attack(connection, scene, command, table)
    assert rows() == before
