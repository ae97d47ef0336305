"""The environment of a code location, for the watch."""

from pramaan_pipelines_tests.orchestration.conftest import configured, nothing_of_the_machine

__all__ = ["configured", "nothing_of_the_machine"]
