"""The course of a soak: faults for a while, then none, until nothing is left to do."""

import time
from collections import Counter
from typing import Final

from pramaan_pipelines_tests.soak.crew import Crew
from pramaan_pipelines_tests.soak.ledger import Ledger, Upkeep, close_the_books
from pramaan_pipelines_tests.soak.site import Site, chance_of, say
from pramaan_pipelines_tests.soak.traffic import Traffic

CALM_SECONDS: Final = 180.0
"""The longest that everything may take to its end once the faults have ended."""
KILL_EVERY_SECONDS: Final = 0.8
"""On the average; any moment may be it."""
QUIET_LOOKS: Final = 2


def soak(site: Site, seconds: float) -> Ledger:
    """Let everything happen for `seconds`, then nothing bad any more, then count."""
    site.found()
    crew = Crew(site.journal.folder, chance_of(site.chance.getrandbits(32)))
    traffic, upkeep = Traffic(site), Upkeep(site)
    try:
        started = time.monotonic()
        harm(crew, traffic, started + seconds)
        site.journal.end_the_faults()
        site.set_consent(site.firms.wavering, granted=True)
        traffic.count_up()
        say(f"{crew.kills.total()} workers killed; now at most {CALM_SECONDS:.0f} s to calm")
        calmed = until_calm(crew, upkeep)
    finally:
        crew.dismiss()
    ledger = close_the_books(site, traffic, upkeep)
    kills = {f"killed: {kind}": count for kind, count in sorted(crew.kills.items())}
    ledger.faults = {"workers killed": crew.kills.total(), **kills, **ledger.faults}
    ledger.faults["seconds to calm"] = round(calmed)
    ledger.must_be_zero["workers that ended by themselves"] = crew.ended.total()
    traffic.close()
    upkeep.close()
    return ledger


def harm(crew: Crew, traffic: Traffic, end: float) -> None:
    """Make work and kill workers until `end`."""
    crew.fill()
    traffic.begin()
    next_kill = time.monotonic()
    while (now := time.monotonic()) < end:
        traffic.a_moment()
        while next_kill <= now:
            crew.kill_one()
            crew.fill()
            next_kill += crew.chance.expovariate(1 / KILL_EVERY_SECONDS)
        time.sleep(0.25)


def until_calm(crew: Crew, upkeep: Upkeep) -> float:
    """Wait until nothing is left to do, at most CALM_SECONDS; return how long it took."""
    started, quiet = time.monotonic(), 0
    said: Counter[str] = Counter()
    while quiet < QUIET_LOOKS and time.monotonic() - started < CALM_SECONDS:
        time.sleep(1)
        crew.fill()
        upkeep.press()
        left = Counter(upkeep.open_ends())
        quiet = 0 if left.total() else quiet + 1
        if +left != said:
            said = +left
            say("left: " + (", ".join(f"{count} {name}" for name, count in said.items()) or "-"))
    return time.monotonic() - started
