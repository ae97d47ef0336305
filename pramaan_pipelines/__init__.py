"""Pramaan's pipelines: the outbox relays and the framer trigger, as a Dagster code location."""

__version__ = "0.1.0"
