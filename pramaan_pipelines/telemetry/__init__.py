"""Spans, metrics and propagation, over the OpenTelemetry API.

Promises: only registered names leave this room, with low-cardinality labels.
Never: puts document text, matter content, or a firm_id beyond the one span attribute that the
registry requires into telemetry.
"""
