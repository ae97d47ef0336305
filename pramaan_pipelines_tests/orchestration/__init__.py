"""The Dagster layer: jobs run in-process, on the real database and the emulator."""
