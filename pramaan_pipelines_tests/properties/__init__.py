"""Random interleavings on the real code beside a small model, and what must always hold."""
