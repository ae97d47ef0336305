"""The page shows what is granted, and nothing else."""

from pramaan_pipelines_tests.privileges.document import PAGE, rendered


def test_the_page_is_what_the_grants_and_the_policies_render() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(), (
        "run `python -m pramaan_pipelines_tests.privileges.document`"
    )
