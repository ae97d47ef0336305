"""Tests of the messaging room: against the emulator, and against a stub for AWS's own faults."""
