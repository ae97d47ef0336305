"""The fenced blocks of a page."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of `page` that are in `language`."""
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", (DOCS / page).read_text())
