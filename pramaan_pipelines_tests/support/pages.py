"""Pages under docs/ that tests hold: prose by hand, and sections made from what was tested.

A section stands between its two marks; whatever is between them is made anew.
"""

import re
from collections.abc import Callable, Mapping

Sections = Mapping[str, Callable[[], str]]


def rendered(page: str, sections: Sections) -> str:
    """Return `page` with every section made anew.

    Raises:
        ValueError: the page lacks the marks of a section.
    """
    for name, section in sections.items():
        begin, end = f"<!-- made from tests: {name} -->", f"<!-- end: {name} -->"
        between = re.compile(f"(?s){re.escape(begin)}.*?{re.escape(end)}")
        if not between.search(page):
            raise ValueError(f"the page lacks the marks of the section {name}")
        page = between.sub(f"{begin}\n\n{section()}\n\n{end}".replace("\\", r"\\"), page)
    return page
