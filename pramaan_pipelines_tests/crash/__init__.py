"""A framer worker that dies at each boundary of its run, and what becomes of the event."""
