"""What the embedded stack raises.

Promises: one class, whose text says what to do next.
Never: carries a password or a whole database URL.
"""

from pramaan_pipelines.errors import PramaanError


class LocalStackError(PramaanError):
    """A part of the embedded stack cannot be found, started or stopped."""
