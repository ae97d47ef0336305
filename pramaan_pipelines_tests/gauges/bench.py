"""A process of `pramaan metrics` on a site, and what it exports."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from pramaan_pipelines.settings import Settings
from pramaan_pipelines_tests.support.line import Line
from pramaan_pipelines_tests.support.world import World

Series = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


@dataclass
class Site:
    """What stands, and the lines by which the process reaches it."""

    world: World
    settings: Settings
    variables: dict[str, str]
    to_database: Line
    to_aws: Line


@dataclass
class Running:
    """A process that runs.

    Attributes:
        url: its Prometheus endpoint.
    """

    process: "subprocess.Popen[str]"
    url: str = ""
    said: list[str] = field(default_factory=list)

    def scrape(self) -> Series:
        """Return what Prometheus would read, by name and labels."""
        with urlopen(self.url, timeout=10) as answer:  # noqa: S310 - our own child
            families = list(text_string_to_metric_families(answer.read().decode()))
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }

    def ours(self) -> Series:
        """Return the same without what Prometheus's own library adds."""
        return {key: value for key, value in self.scrape().items() if key[0].startswith("pramaan_")}

    def names(self) -> set[str]:
        return {name for name, _ in self.ours()}

    def number(self, name: str, **labels: str) -> float | None:
        return self.ours().get((name, tuple(sorted(labels.items()))))

    def end(self) -> int:
        """Ask it to end; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def metrics(folder: Path, variables: Mapping[str, str], *arguments: str) -> Iterator[Running]:
    """Run `pramaan metrics` while the block runs."""
    with (folder / "metrics.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "pramaan_pipelines", "metrics", *arguments],
            env={**os.environ, **variables},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    running = Running(process)
    try:
        out: Any = process.stdout
        for line in out:
            running.said.append(line.strip())
            if line.startswith("Serving"):
                running.url = line.split()[1]
                break
        yield running
    finally:
        process.kill()
        process.wait()
        process.stdout and process.stdout.close()
