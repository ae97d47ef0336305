"""The two locks as data: what is pinned, with which hashes, for which machine, and why."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT: Final = Path(__file__).parents[2]
DEPLOYED: Final = ROOT / "requirements.lock"
WITH_UI: Final = ROOT / "requirements-web.lock"
DEVELOPED: Final = ROOT / "requirements-dev.lock"
PIN = re.compile(r"(?m)^(?P<pin>[A-Za-z0-9][^\\\n]*?) \\\n(?P<hashes>(?:    --hash=[^\n]*\n)+)")
HASH = re.compile(r"--hash=(\S+)")


@dataclass(frozen=True)
class Pinned:
    """One entry of a lock."""

    name: NormalizedName
    version: str
    marker: Marker | None
    hashes: frozenset[str]

    @property
    def applies(self) -> bool:
        """Whether it is for this machine."""
        return self.marker is None or self.marker.evaluate()


def read(path: Path) -> list[Pinned]:
    """Return the entries of the lock at `path`."""
    text = path.read_text(encoding="utf-8")
    return [_entry(found["pin"], found["hashes"]) for found in PIN.finditer(text)]


def bare_lines(path: Path) -> list[str]:
    """Return the lines that belong to no entry with a hash, comments aside."""
    rest = PIN.sub("", path.read_text(encoding="utf-8"))
    return [line for line in rest.splitlines() if line.strip() and not line.strip().startswith("#")]


def asked_for() -> dict[str, set[NormalizedName]]:
    """Return what pyproject.toml itself names: what a deployment needs, and each extra."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    groups = {"deployed": project["dependencies"], **project["optional-dependencies"]}
    return {
        group: {canonicalize_name(Requirement(line).name) for line in lines}
        for group, lines in groups.items()
    }


def _entry(pin: str, hashes: str) -> Pinned:
    requirement = Requirement(pin)
    (pinned,) = requirement.specifier
    assert pinned.operator == "=="
    return Pinned(
        canonicalize_name(requirement.name),
        pinned.version,
        requirement.marker,
        frozenset(HASH.findall(hashes)),
    )
