"""The page shows what the tests hold, and nothing else."""

import pytest

from pramaan_pipelines_tests.faults.document import PAGE, rendered


def test_the_page_is_what_the_matrices_render() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert rendered(page) == page, "run `python -m pramaan_pipelines_tests.faults.document`"


def test_a_figure_changed_by_hand_is_seen() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert rendered(page.replace("| 0 | 0 | 0 |", "| 1 | 0 | 0 |", 1)) == page


def test_a_page_without_a_section_s_marks_is_told() -> None:
    with pytest.raises(ValueError, match="relays"):
        rendered("# When something fails\n")
