"""The one exception base of the project.

Promises: every error raised on purpose is a `PramaanError`, and its text says what to do about it.
Never: puts a secret, document text or matter content into a message.
"""


class PramaanError(Exception):
    """Base of all errors that this project raises on purpose."""


class SettingsError(PramaanError):
    """The environment lacks a setting, or one has a value that cannot be used."""


class ScopeError(PramaanError):
    """A database scope was opened without the tenant settings that it needs."""


class DestinationError(PramaanError):
    """A queue or a bus that a lane sends to does not exist or cannot be reached."""


class DatabaseUnavailableError(PramaanError):
    """Postgres does not answer, or does not let this role in."""


class SchemaError(PramaanError):
    """The database is not migrated to the revision that this code needs."""


class UnfinishedError(PramaanError):
    """A piece of work stopped before its end, and the same call goes on from there."""
