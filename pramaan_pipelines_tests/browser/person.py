"""A person at the browser: clicks what stands there by its words, waits, and keeps pictures."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from playwright.sync_api import Locator, Page, sync_playwright
from playwright.sync_api import TimeoutError as NotSeen

BROWSER = Path("/usr/bin/chromium")
PATIENCE_SECONDS = 240.0
"""A minute's schedule, a minute's look at the road, and a slow machine."""
RUN_ID = re.compile(r"^\s*[0-9a-f]{8}\s*$")
SIZE = 1280, 800


@dataclass(frozen=True)
class Person:
    """Somebody on call.

    Attributes:
        page: the browser's one tab.
        url: of the UI.
        pictures: where the screenshots are kept.
    """

    page: Page
    url: str
    pictures: Path

    def goes_to(self, section: str) -> None:
        """Click a section of the navigation on the left."""
        self.page.locator("a", has_text=section).first.click()

    def opens_job(self, name: str, tab: str) -> None:
        """Click through the jobs to a tab of one."""
        self.goes_to("Jobs")
        self.link(f"jobs/{name}").click()
        self.link(f"jobs/{name}/{tab}").click()

    def opens_the_first_run(self) -> None:
        """Click the id of the first run in the list; the header of a job links its latest run."""
        self.page.locator("a[href*='/runs/']", has_text=RUN_ID).first.click()

    def link(self, part: str) -> Locator:
        """Return the first link whose address ends with `part`, whatever stands after a `?`."""
        return self.page.locator(f"a[href$='{part}'], a[href*='{part}?']").first

    def presses(self, words: str) -> None:
        """Click the button that says `words`."""
        self.page.get_by_role("button", name=words).last.click()

    def reads(self, words: str | re.Pattern[str], seconds: float = PATIENCE_SECONDS) -> Locator:
        """Wait until `words` are seen, and return where."""
        found = self.page.get_by_text(words).first
        found.wait_for(timeout=seconds * 1000)
        return found

    def reads_after_reloading(self, words: str, seconds: float = PATIENCE_SECONDS) -> Locator:
        """Reload until `words` are seen."""
        deadline = monotonic() + seconds
        while True:
            found = self.page.get_by_text(words).first
            try:
                found.wait_for(timeout=8000)
            except NotSeen:
                if monotonic() > deadline:
                    raise
                self.page.reload()
            else:
                return found

    @contextmanager
    def sees_far(self) -> Iterator[None]:
        """See a list to its end while the block runs: the UI draws only the rows in sight."""
        width, height = SIZE
        self.page.set_viewport_size({"width": width, "height": 6 * height})
        try:
            yield
        finally:
            self.page.set_viewport_size({"width": width, "height": height})

    def takes_a_picture(self, name: str) -> None:
        """Keep a screenshot, once what moves has come to rest."""
        self.page.wait_for_timeout(1500)
        self.page.screenshot(path=self.pictures / f"{name}.png")


@contextmanager
def person_at(url: str, pictures: Path) -> Iterator[Person]:
    """Open the system's browser on `url` while the block runs."""
    pictures.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER,
            # Root has no sandbox; what is shown is our own.
            args=["--no-sandbox"],
        )
        width, height = SIZE
        page = browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(PATIENCE_SECONDS * 1000)
        page.goto(url)
        try:
            yield Person(page, url, pictures)
        finally:
            browser.close()
