"""What OTEL_PROPAGATORS=xray,tracecontext makes of a process, which reads it once at import."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import propagate
from opentelemetry.propagators.aws import AwsXRayPropagator
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pramaan_pipelines.telemetry import propagation


@contextmanager
def speaking_xray() -> Iterator[None]:
    """Let this process speak X-Ray while the block runs."""
    before = propagate.get_global_textmap()
    propagation._configured.cache_clear()
    propagate.set_global_textmap(
        CompositePropagator([AwsXRayPropagator(), TraceContextTextMapPropagator()])
    )
    try:
        yield
    finally:
        propagate.set_global_textmap(before)
        propagation._configured.cache_clear()
