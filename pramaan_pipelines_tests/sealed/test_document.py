"""The page shows what the tests hold, and nothing else."""

from pramaan_pipelines_tests.sealed.document import PAGE, rendered


def test_the_page_is_what_the_attacks_render() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert rendered(page) == page, "run `python -m pramaan_pipelines_tests.sealed.document`"


def test_a_cell_changed_by_hand_is_seen() -> None:
    page = PAGE.read_text(encoding="utf-8")
    forged = page.replace("| policy |", "| A |", 1)
    assert forged != page
    assert rendered(forged) == page
