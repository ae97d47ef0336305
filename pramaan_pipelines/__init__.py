"""Pramaan's pipelines: the outbox relays and the framer trigger, as a Dagster code location.

Promises: the rooms stand in layers, and each imports only from those below it.
Never: does anything at import.
"""

__version__ = "0.1.0"
