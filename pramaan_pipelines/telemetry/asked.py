"""What the OTEL_EXPORTER_OTLP_* variables ask for, read before the SDK reads them.

Promises: what cannot be used is one sentence that names the variable and what to do; the SDK is
handed nothing that it would repeat in its own log for being wrong.
Never: repeats a value: it may hold the collector's token, or a password.

Source: https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

import logging
import re
from collections.abc import Iterator
from functools import cache
from typing import Final
from urllib.parse import unquote, urlsplit

from pramaan_pipelines.settings import ExportSettings, Signal

LOGGER = logging.getLogger(__name__)

SIGNALS: Final[tuple[Signal, ...]] = ("traces", "metrics")
DEFAULT_SECONDS: Final = 10.0
"""The exporter's own default."""
MOST_SECONDS: Final = 60.0
"""Of a time-out. The specification counts milliseconds and Python's SDK seconds: 10000 would hold
up the end of a run for hours."""

HTTP: Final = "http/protobuf"
_PATHS: Final = {"traces": "v1/traces", "metrics": "v1/metrics"}
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\x20\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*")
"""What the SDK takes without a word: no quote, comma, semicolon or backslash."""
_DECODED: Final = re.compile(r"[\x20-\x7e\xa0-\xff]*")
_SPACES: Final = re.compile(r"[\x00-\x20\x7f]")


@cache
def tell(problem: str) -> None:
    """Log `problem`, once a process."""
    LOGGER.warning("%s", problem)


def refusals(settings: ExportSettings, signal: Signal) -> Iterator[str]:
    """Yield why `signal` cannot be exported as it is asked for."""
    if (settings.exporter(signal), settings.of("protocol", signal) or HTTP) != ("otlp", HTTP):
        yield (
            f"{signal} are not exported: only otlp over {HTTP} is spoken here. Set "
            f"OTEL_{signal.upper()}_EXPORTER to otlp or none, and OTEL_EXPORTER_OTLP_PROTOCOL to "
            f"{HTTP} or not at all."
        )
        return
    if problem := _wrong_with_address(settings.of("endpoint", signal)):
        yield (
            f"{signal} are not exported: {settings.named('endpoint', signal)} {problem}. "
            "Give it as http://host:4318, and a token in OTEL_EXPORTER_OTLP_HEADERS."
        )
    try:
        headers(settings, signal)
    except ValueError as error:
        yield (
            f"{signal} are not exported: {settings.named('headers', signal)} {error}. "
            "Give it as name=value,name=value, the values percent-encoded."
        )


def endpoint(settings: ExportSettings, signal: Signal) -> str:
    """Return the URL that `signal` is posted to, as the exporter makes it."""
    own, both = settings.own("endpoint", signal), settings.of("endpoint", signal)
    return own or f"{(both or 'http://localhost:4318').removesuffix('/')}/{_PATHS[signal]}"


def headers(settings: ExportSettings, signal: Signal) -> dict[str, str]:
    """Return the headers that are sent along.

    Raises:
        ValueError: one of them is none; the text says which.
    """
    found: dict[str, str] = {}
    pairs = (pair.strip(" \t") for pair in (settings.of("headers", signal) or "").split(","))
    for place, pair in enumerate(filter(None, pairs), 1):
        name, equals, value = (part.strip(" \t") for part in pair.partition("="))
        decoded = value if " " in value else unquote(value).strip()
        if not (equals and _HEADER_NAME.fullmatch(name) and _HEADER_NAME.fullmatch(unquote(name))):
            raise ValueError(f"has no name=value at place {place}")
        if not (_HEADER_VALUE.fullmatch(value) and _DECODED.fullmatch(decoded)):
            raise ValueError(f"has a value that no header can hold at place {place}")
        found[unquote(name).lower()] = decoded
    return found


def seconds(settings: ExportSettings, signal: Signal) -> float:
    """Return how long the collector may keep us waiting; what is no such time is told."""
    problem = wrong_with_seconds(settings, signal)
    if problem is None:
        return float(settings.of("timeout", signal) or DEFAULT_SECONDS)
    tell(problem)
    return DEFAULT_SECONDS


def wrong_with_seconds(settings: ExportSettings, signal: Signal) -> str | None:
    """Return what is wrong with the time-out; None where it is right."""
    try:
        # What is not a number at all compares with nothing.
        if 0 < float(settings.of("timeout", signal) or DEFAULT_SECONDS) <= MOST_SECONDS:
            return None
    except ValueError:
        pass
    return (
        f"{settings.named('timeout', signal)} is not a number of seconds, over 0 and at most "
        f"{MOST_SECONDS:.0f}: {DEFAULT_SECONDS:.0f} is taken. Correct it."
    )


def _wrong_with_address(url: str | None) -> str | None:
    if url is None:
        return None
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        return "is no address"
    if parts.scheme not in {"http", "https"} or not host or port == 0 or _SPACES.search(url):
        return "is no address"
    if "?" in url or "#" in url or "@" in parts.path:
        # The exporter's log would show it, with each failure.
        return "holds more than an address"
    return None
