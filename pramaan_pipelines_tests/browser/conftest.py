"""The stack once, and a person at it for each test; a failed test leaves a picture too."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pramaan_pipelines_tests.browser.person import BROWSER, Person, person_at
from pramaan_pipelines_tests.browser.stack import DevStack, dev_stack

PICTURES = Path(__file__).parents[2] / ".artefacts" / "browser"
MISSING = f"no {BROWSER} on this machine; on Debian: apt-get install chromium"


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevStack]:
    """`pramaan dev`, running."""
    if not BROWSER.exists():
        pytest.skip(MISSING)
    with dev_stack(Path(__file__).parents[2], tmp_path_factory.mktemp("dev")) as running:
        yield running


@pytest.fixture
def person(stack: DevStack, request: pytest.FixtureRequest) -> Iterator[Person]:
    """Somebody who has just opened the UI."""
    with person_at(stack.url, PICTURES) as somebody:
        failed_before = request.session.testsfailed
        yield somebody
        if request.session.testsfailed > failed_before:
            somebody.takes_a_picture(f"failed-{request.node.name[:60]}")
