"""Run workers forked from a process that has already imported the code location.

Promises: one process per run, as Dagster's own launcher has it; what cannot be warm is launched by
Dagster's own launcher.
Never: shares a connection, an exporter, a thread or random state between two runs.
"""
