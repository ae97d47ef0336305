"""The process log: one line for each outcome, as text or as JSON.

Promises: an outcome's line has its event_id, the outcome, the lane or the gate, and the trace id;
where the host has configured logging already, its handlers stay the only ones, so nothing is
doubled.
Never: an envelope's detail, or an exception's text, at any level.
"""

import json
import logging
from datetime import UTC, datetime
from typing import Final, Literal
from uuid import UUID

LOGGER: Final = logging.getLogger("pramaan_pipelines.outcomes")
OURS: Final = (logging.getLogger("pramaan_pipelines"), logging.getLogger("opentelemetry"))
"""This project's loggers, and the exporters', from which a silent collector is heard."""

FIELDS: Final = "pramaan"
"""Where a record keeps what the JSON form shows as fields."""


def log_outcome(  # noqa: PLR0913 - they are the line's fields
    outcome: str,
    *,
    event_id: UUID | None,
    trace_id: str | None,
    lane: str | None = None,
    gate: str | None = None,
    reason: str | None = None,
    run_id: str | None = None,
    level: int = logging.INFO,
) -> None:
    """Write the one line of an event's outcome.

    Args:
        outcome: of a closed set.
        event_id: None for a run without an event, and where the envelope could not be read.
        trace_id: the producer's; None where there is none.
        lane: for a row, where it stood.
        gate: for a framer run, where it ended.
        reason: of a closed set, or an error's type.
        run_id: Dagster's, for whoever looks for the run.
        level: a person should look from WARNING on.
    """
    if not LOGGER.isEnabledFor(level):
        return
    given = {
        "event_id": None if event_id is None else str(event_id),
        "outcome": outcome,
        "lane": lane,
        "gate": gate,
        "reason": reason,
        "trace_id": trace_id,
        "run_id": run_id,
    }
    log_fields(LOGGER, level, {name: value for name, value in given.items() if value is not None})


def log_fields(logger: logging.Logger, level: int, fields: dict[str, str]) -> None:
    """Write `fields` as one line; each value is ours or a validated id, `message` words of ours."""
    if logger.isEnabledFor(level):
        told = " ".join(
            value if name == "message" else f"{name}={value}" for name, value in fields.items()
        )
        logger.log(level, "%s", told, extra={FIELDS: fields})


class TextFormatter(logging.Formatter):
    """One line of text; of an exception only the type, for its text may hold values."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        record.message, record.asctime = record.getMessage(), self.formatTime(record)
        kind = _error_type(record)
        return self.formatMessage(record) + (f" error.type={kind}" if kind else "")


class JsonFormatter(logging.Formatter):
    """The same as one JSON object: time, level, logger, and the fields or the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, str] = getattr(record, FIELDS, {}) or {"message": record.getMessage()}
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            **fields,
        }
        if kind := _error_type(record):
            line["error.type"] = kind
        return json.dumps(line)


def _error_type(record: logging.LogRecord) -> str | None:
    raised = record.exc_info[0] if record.exc_info else None
    return None if raised is None else raised.__name__


class _Handler(logging.StreamHandler):  # type: ignore[type-arg] # the stub's parameter is no run-time one
    """Ours, by which a second set-up knows the first. Writes to standard error."""


def configure_logging(form: Literal["text", "json"]) -> None:
    """Send this project's lines from INFO on to standard error, unless the host handles them.

    Called again it changes the form and nothing else.
    """
    handler = next((h for h in OURS[0].handlers if isinstance(h, _Handler)), None)
    if handler is None:
        if logging.getLogger().handlers or any(logger.handlers for logger in OURS):
            return
        handler = _Handler()
        OURS[0].setLevel(logging.INFO)
        for logger in OURS:
            logger.addHandler(handler)
            # A handler that the host adds to the root later would write each line a second time.
            logger.propagate = False
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
