"""Small tables in metadata.

Promises: a cell shows what it holds, whatever that is.
Never: decides what is shown.
"""

from collections.abc import Iterable, Sequence

from dagster import MarkdownMetadataValue, MetadataValue


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> MarkdownMetadataValue:
    """Return a table; a bar inside a cell does not end it."""
    lines = [_line(head), "|" + "---|" * len(head)]
    lines += [_line(row) for row in rows]
    return MetadataValue.md("\n".join(lines))


def _line(cells: Sequence[object]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"
