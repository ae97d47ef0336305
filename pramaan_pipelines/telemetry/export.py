"""Export by OTLP over HTTP: what the OTEL_* variables say, and nothing else.

Promises: with nothing set, nothing is exported and no exporter is imported; a collector that is
down, slow or absurd costs whoever flushes OTEL_EXPORTER_OTLP_TIMEOUT at the most, and never raises.
Never: replaces a provider that the host has set up, or waits for a collector anywhere but in
`flush`.

Source: https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

import logging
from collections.abc import Callable, Sequence
from threading import Thread
from time import monotonic
from typing import Final

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider, TraceBasedExemplarFilter
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import SpanLimits, SpanProcessor, TracerProvider

from pramaan_pipelines.settings import ExportSettings, Signal
from pramaan_pipelines.telemetry import asked

LOGGER = logging.getLogger(__name__)

SERVICE: Final = "pramaan-pipelines"


def resource(environment: str) -> Resource:
    """Return who reports; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word."""
    ours = {"service.name": SERVICE, "deployment.environment.name": environment}
    return Resource.create(ours).merge(OTELResourceDetector().detect())


class _Silent(TracerProvider):
    """A provider of ours that exports nothing, so that there is nothing to hand over."""

    silent = True

    def add_span_processor(self, span_processor: SpanProcessor) -> None:
        """Let the host hear after all."""
        self.silent = False
        super().add_span_processor(span_processor)


def spans_are_heard() -> bool:
    """Return whether anything receives the process's spans, so that it is worth describing them."""
    provider = trace.get_tracer_provider()
    return not (isinstance(provider, _Silent) and provider.silent)


def set_up_tracing(environment: str, limits: Callable[[], SpanLimits]) -> None:
    """Give the process a tracer provider where it has none; it exports what the settings say.

    There is none to shut down at the exit: whoever works flushes, and an exit waits for nothing.
    """
    there = _provider("traces")
    if there is not None and not isinstance(there, trace.ProxyTracerProvider):
        return
    processor = _exporting("traces")
    made = TracerProvider if isinstance(processor, SpanProcessor) else _Silent
    provider = made(span_limits=limits(), resource=resource(environment), shutdown_on_exit=False)
    if isinstance(processor, SpanProcessor):
        provider.add_span_processor(processor)
    trace.set_tracer_provider(provider)


def set_up_metrics(environment: str) -> None:
    """Give the process a meter provider where it has none and the settings name a collector."""
    there = _provider("metrics")
    # The API gives its stand-in no public name.
    if there is not None and type(there).__name__ != "_ProxyMeterProvider":
        return
    reader = metric_reader()
    if reader is not None:
        metrics.set_meter_provider(meter_provider([reader], environment))
    elif there is None:
        metrics.set_meter_provider(metrics.NoOpMeterProvider())


def meter_provider(readers: Sequence[MetricReader], environment: str) -> MeterProvider:
    """Return a provider of `readers`, whatever OTEL_METRICS_EXEMPLAR_FILTER says."""
    who = resource(environment)
    try:
        return MeterProvider(readers, resource=who, shutdown_on_exit=False)
    except ValueError:
        asked.tell(
            "OTEL_METRICS_EXEMPLAR_FILTER is not always_on, always_off or trace_based: the last is "
            "taken. Correct it."
        )
        return MeterProvider(
            readers,
            resource=who,
            exemplar_filter=TraceBasedExemplarFilter(),
            shutdown_on_exit=False,
        )


def _provider(signal: Signal) -> object | None:
    """Return the process's provider; None where a variable names one that cannot be loaded."""
    try:
        return trace.get_tracer_provider() if signal == "traces" else metrics.get_meter_provider()
    except Exception as error:  # noqa: BLE001 - whatever an entry point raises; StopIteration for none
        kind = "TRACER" if signal == "traces" else "METER"
        asked.tell(
            f"OTEL_PYTHON_{kind}_PROVIDER names what cannot be loaded ({type(error).__name__}): "
            "this project's own is used. Correct it, or do not set it."
        )
        return None


def metric_reader() -> MetricReader | None:
    """Return what exports metrics; None where the settings name no collector."""
    reader = _exporting("metrics")
    return reader if isinstance(reader, MetricReader) else None


def flush() -> bool:
    """Hand over what has been recorded so far; returns whether that was done in time.

    The SDK's `force_flush` does not keep to its own time-out, and a collector that answers a byte
    at a time outlives the exporter's: what is late goes on in a thread that holds up nobody.
    """
    return _hand_over(*((signal, _provider(signal)) for signal in asked.SIGNALS))


def flush_metrics(provider: MeterProvider) -> bool:
    """Do the same for a meter provider that is not the process's."""
    return _hand_over(("metrics", provider))


def _hand_over(*providers: tuple[Signal, object]) -> bool:
    calls = [
        (signal, force_flush)
        for signal, provider in providers
        if (force_flush := getattr(provider, "force_flush", None)) is not None
        and not (isinstance(provider, _Silent) and provider.silent)
    ]
    if not calls:
        return True
    settings, started = ExportSettings(), monotonic()
    threads = [
        (asked.seconds(settings, signal), Thread(target=_quietly, args=[force_flush], daemon=True))
        for signal, force_flush in calls
    ]
    for _, thread in threads:
        thread.start()
    for seconds, thread in threads:
        thread.join(max(0.0, started + seconds - monotonic()))
    in_time = not any(thread.is_alive() for _, thread in threads)
    if not in_time:
        LOGGER.warning("telemetry was not taken in time: look at the collector; the work goes on")
    return in_time


def _exporting(signal: Signal) -> SpanProcessor | MetricReader | None:
    """Return what exports `signal`; None where nothing is asked for, or nothing that can be done.

    What is asked wrongly is told, and no more: no setting of telemetry is worth a run.
    """
    settings = ExportSettings()
    if settings.exporter(signal) == "none":
        return None
    if refused := list(asked.refusals(settings, signal)):
        for problem in refused:
            asked.tell(problem)
        return None
    try:
        from pramaan_pipelines.telemetry import otlp  # noqa: PLC0415 - 0.2 s that only export pays

        return otlp.exporting(settings, signal)
    except Exception as error:  # noqa: BLE001 - whatever the SDK makes of its variables
        asked.tell(
            f"{signal} are not exported ({type(error).__name__}): look at the OTEL_* variables"
        )
        return None


def _quietly(call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - no telemetry is worth a run
        LOGGER.warning("telemetry could not be handed over: %s", type(error).__name__)
