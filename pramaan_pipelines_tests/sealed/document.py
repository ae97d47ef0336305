"""docs/isolation.md: prose written by hand, and between the marks what is made from tests.

`python -m pramaan_pipelines_tests.sealed.document` writes the sections anew.
"""

from pathlib import Path
from typing import Final

from pramaan_pipelines_tests.sealed.columns import columns_section
from pramaan_pipelines_tests.sealed.envelopes import kinds_section
from pramaan_pipelines_tests.sealed.matrix import matrix_section
from pramaan_pipelines_tests.sealed.tricks import tricks_section
from pramaan_pipelines_tests.support import pages

PAGE: Final = Path(__file__).parents[2] / "docs" / "isolation.md"
SECTIONS: Final[pages.Sections] = {
    "matrix": matrix_section,
    "columns": columns_section,
    "tricks": tricks_section,
    "envelopes": kinds_section,
}


def rendered(page: str) -> str:
    """Return `page` with every section made anew."""
    return pages.rendered(page, SECTIONS)


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
