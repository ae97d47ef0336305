"""How Dagster's own storage grows, and what keeps it from growing for ever."""
