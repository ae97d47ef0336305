"""docs/faults.md: the prose is written by hand, what stands between the marks is made from tests.

`python -m pramaan_pipelines_tests.faults.document` writes the sections anew. A further section is
one entry in SECTIONS and its two marks in the page.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pramaan_pipelines_tests.crash.matrix import framer_section
from pramaan_pipelines_tests.faults.matrix import relay_section

PAGE: Final = Path(__file__).parents[2] / "docs" / "faults.md"
SECTIONS: Final[dict[str, Callable[[], str]]] = {
    "relays": relay_section,
    "framer": framer_section,
}


def rendered(page: str) -> str:
    """Return `page` with every section made anew.

    Raises:
        ValueError: the page lacks the marks of a section.
    """
    for name, section in SECTIONS.items():
        begin, end = f"<!-- made from tests: {name} -->", f"<!-- end: {name} -->"
        between = re.compile(f"(?s){re.escape(begin)}.*?{re.escape(end)}")
        if not between.search(page):
            raise ValueError(f"docs/faults.md lacks the marks of the section {name}")
        page = between.sub(f"{begin}\n\n{section()}\n\n{end}".replace("\\", r"\\"), page)
    return page


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
