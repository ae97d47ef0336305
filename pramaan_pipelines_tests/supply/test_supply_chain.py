"""What is installed is what the lock says, with hashes, and nothing names a registry."""

import os
import re
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from pramaan_pipelines_tests.supply import lock
from pramaan_pipelines_tests.supply.document import PAGE, rendered
from pramaan_pipelines_tests.supply.lock import DEPLOYED, DEVELOPED, WITH_UI

BROUGHT = {"pip", "setuptools", "pramaan-pipelines"}
"""The project itself, and what `python -m venv` brings."""

MADE = {
    ".git",
    ".venv",
    ".bench",  # the peers that `make bench` installs
    ".pramaan",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
    ".import_linter_cache",
    "__pycache__",
    "dist",
    "build",
}
REGISTRY = re.compile(
    r"--(?:extra-)?index-url|--find-links|PIP_INDEX|UV_INDEX|UV_DEFAULT_INDEX|tool\.uv\.(?:index|pip)"
    r"|/simple/|pypi\.org|pythonhosted|file:///"
)


@pytest.mark.parametrize("path", [DEPLOYED, WITH_UI, DEVELOPED], ids=lambda path: str(path.name))
def test_every_line_of_a_lock_is_one_version_with_hashes(path: Path) -> None:
    entries = lock.read(path)
    assert len(entries) > 30
    assert lock.bare_lines(path) == []
    here = [entry.name for entry in entries if entry.applies]
    assert len(set(here)) == len(here)
    for entry in entries:
        assert entry.hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", found) for found in entry.hashes)


def test_a_deployment_s_lock_is_a_part_of_the_developers_one() -> None:
    # A marker may be wider there: the developers' side may need a package in more places.
    developed, with_ui, deployed = (
        {(entry.name, entry.version, entry.hashes) for entry in lock.read(path)}
        for path in (DEVELOPED, WITH_UI, DEPLOYED)
    )
    assert deployed < with_ui < developed


def test_what_is_installed_is_the_lock_and_nothing_else() -> None:
    installed = {
        canonicalize_name(found.metadata["Name"]): found.version for found in distributions()
    }
    locked = {entry.name: entry.version for entry in lock.read(DEVELOPED) if entry.applies}
    assert {
        name: version for name, version in installed.items() if name not in BROUGHT
    } == locked, "run `make check`, or remove what was installed by hand"
    assert "pramaan-pipelines" in installed


def test_what_pyproject_names_is_in_its_lock() -> None:
    groups = lock.asked_for()
    deployed = {entry.name for entry in lock.read(DEPLOYED)}
    developed = {entry.name for entry in lock.read(DEVELOPED)}
    assert groups["deployed"] <= deployed
    assert (groups["local"] | groups["web"] | groups["dev"]) - {"pramaan-pipelines"} <= developed
    assert groups["web"] <= {entry.name for entry in lock.read(WITH_UI)}


def test_nothing_in_the_repository_names_a_registry(repository: Path) -> None:
    found = []
    looked_at = 0
    for folder, folders, names in os.walk(repository):
        folders[:] = [name for name in folders if name not in MADE]
        for path in (Path(folder, name) for name in names if name != Path(__file__).name):
            looked_at += 1
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [(path.name, match[0]) for match in REGISTRY.finditer(text)]
    assert looked_at > 200
    assert found == []


def test_the_page_lists_what_the_locks_pin() -> None:
    assert PAGE.read_text(encoding="utf-8") == rendered(), (
        "run `python -m pramaan_pipelines_tests.supply.document`"
    )
