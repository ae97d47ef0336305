"""A real Dagster instance with its daemon, and what happens to events when it is killed."""
