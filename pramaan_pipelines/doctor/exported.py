"""What doctor looks at of the OTEL_* variables, and whether a collector takes what they send.

Promises: each problem says what to do; what is not exported at all is no problem.
Never: shows a header or an address, sends a number of ours, or loads an exporter for nothing.
"""

from collections.abc import Iterator
from typing import Final

from pramaan_pipelines.settings import ExportSettings, Signal
from pramaan_pipelines.telemetry import asked

NOTHING_ASKED: Final = "nothing is exported: no OTEL_EXPORTER_OTLP_ENDPOINT is set, docs/metrics.md"


def asked_for() -> bool:
    """Tell whether anything is to be exported."""
    settings = ExportSettings()
    return any(settings.exporter(signal) != "none" for signal in asked.SIGNALS)


def export_problems() -> Iterator[str]:
    """Yield what keeps traces and metrics from being exported."""
    settings, told = ExportSettings(), set[str]()
    for signal in asked.SIGNALS:
        for problem in _of(settings, signal):
            if problem not in told:
                told.add(problem)
                yield problem


def _of(settings: ExportSettings, signal: Signal) -> Iterator[str]:
    if settings.exporter(signal) == "none":
        return
    if problem := asked.wrong_with_seconds(settings, signal):
        yield problem
    refused = list(asked.refusals(settings, signal))
    yield from refused
    if refused:
        return
    from pramaan_pipelines.telemetry import otlp  # noqa: PLC0415 - 0.2 s that only export pays

    if problem := otlp.unheard(settings, signal):
        yield f"the collector that {settings.named('endpoint', signal)} names {problem}"
