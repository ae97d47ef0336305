"""The layers of the house, and what every module says of itself."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "pramaan_pipelines"
MODULES = sorted(PACKAGE.rglob("*.py"))
KNOW_DAGSTER = ("orchestration", "definitions.py")


def imports(module: Path) -> set[str]:
    """Return the top-level names that `module` imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def name_of(module: Path) -> str:
    return str(module.relative_to(PACKAGE))


def test_import_linter_keeps_every_contract(repository: Path) -> None:
    with (repository / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    assert len(contracts) == 2
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(contracts)} kept, 0 broken" in done.stdout
    for contract in contracts:
        assert contract["name"] in done.stdout


def test_every_room_is_in_the_layers(repository: Path) -> None:
    with (repository / "pyproject.toml").open("rb") as file:
        layers, dagster = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    named = {room.strip() for layer in layers["layers"] for room in layer.split("|")}
    rooms = {
        path.stem
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    } - {"__init__"}
    assert named == rooms
    sources = {module.split(".")[1] for module in dagster["source_modules"]}
    assert sources == rooms - {"orchestration", "definitions"}


def test_only_orchestration_and_definitions_import_dagster() -> None:
    know = {
        name_of(module)
        for module in MODULES
        if any(name == "dagster" or name.startswith("dagster_") for name in imports(module))
    }
    assert know
    assert all(name.startswith(KNOW_DAGSTER) for name in know)


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_every_module_says_what_it_promises_and_what_it_never_does(module: Path) -> None:
    text = ast.get_docstring(ast.parse(module.read_text()))
    assert text is not None
    lines = text.splitlines()
    assert any(line.startswith("Promises: ") for line in lines)
    assert any(line.startswith("Never: ") for line in lines)


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_no_module_is_two_things(module: Path) -> None:
    """About 200 lines can be read in one sitting; past 400 a module is two."""
    assert len(module.read_text().splitlines()) <= 400
