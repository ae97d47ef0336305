"""docs/faults.md: the prose is written by hand, what stands between the marks is made from tests.

`python -m pramaan_pipelines_tests.faults.document` writes the sections anew. A further section is
one entry in SECTIONS and its two marks in the page.
"""

from pathlib import Path
from typing import Final

from pramaan_pipelines_tests.crash.matrix import framer_section
from pramaan_pipelines_tests.faults.matrix import relay_section
from pramaan_pipelines_tests.support import pages

PAGE: Final = Path(__file__).parents[2] / "docs" / "faults.md"
SECTIONS: Final[pages.Sections] = {
    "relays": relay_section,
    "framer": framer_section,
}


def rendered(page: str) -> str:
    """Return `page` with every section made anew."""
    return pages.rendered(page, SECTIONS)


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
