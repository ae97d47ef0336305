"""Each rule switched off alone: where that shows, and as what.

`python -m pramaan_pipelines_tests.model.broken` prints the table with the shortest traces.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from pramaan_pipelines_tests.model.invariants import Violation
from pramaan_pipelines_tests.model.rules import RULE_NAMES, Model, Rules, Setting
from pramaan_pipelines_tests.model.search import Found, Trace, search, shown


@dataclass(frozen=True)
class Case:
    """A small setting in which a rule's absence shows; as a trap where no violation is named."""

    setting: Setting
    violation: Violation | None = None


ONE: Final = Setting(events=(0,), faults=1)
TWICE: Final = Setting(events=(0, 0), faults=0)
TWO: Final = Setting(events=(0, 1), faults=0)
TWO_WITH_A_FAULT: Final = Setting(events=(0, 1), faults=1)
SECOND_TWICE: Final = Setting(events=(0, 1, 1), faults=0)
ACCEPTED: Final = Setting(events=(0,), faults=1, accepted=True)
REVOKED: Final = Setting(events=(0,), faults=0, revocations=1)
VANISHES: Final = Setting(events=(0,), faults=0, vanishes=True)

CASES: Final[Mapping[str, Case]] = {
    "eb_17_coherence": Case(Setting(forged=frozenset({0}), faults=0), Violation.FORGED_FRAMED),
    "eb_16_exclusive_claim": Case(TWO, Violation.LIVE_CLAIM_TAKEN),
    "eb_16_claim_clears_rebuild": Case(TWO),
    "eb_18_fenced_release": Case(ONE, Violation.LATE_WRITE),
    "eb_18_sweep": Case(ONE),
    "delete_after_commit": Case(ONE),
    "fence_before_invoke": Case(ONE, Violation.LOST_CLAIM_INVOKED),
    "healing": Case(ONE),
    "h1_lost_claim_looks_again": Case(TWICE, Violation.TOO_MANY_RUNS),
    "h1_mark_with_the_lost_claim": Case(SECOND_TWICE, Violation.TOO_MANY_RUNS),
    "h2_healing_skips_dedupe": Case(ONE),
    "h2_healing_takes_the_pending_event": Case(SECOND_TWICE, Violation.TOO_MANY_RUNS),
    "h3_healing_claim_repeats_its_need": Case(ONE, Violation.TOO_MANY_RUNS),
    "h3_lost_healing_marks_nothing": Case(ONE, Violation.TOO_MANY_RUNS),
    "h4_consent_in_the_claim": Case(REVOKED, Violation.RUN_WITHOUT_CONSENT),
    "h4_consent_at_the_fence": Case(REVOKED, Violation.FENCE_WITHOUT_CONSENT),
    "h4_subject_in_the_claim": Case(VANISHES, Violation.RUN_WITHOUT_MATTER),
    "h4_subject_at_the_fence": Case(VANISHES, Violation.FENCE_WITHOUT_MATTER),
    "h5_skip_keeps_running": Case(
        Setting(events=(0, 1), faults=0, revocations=1), Violation.SKIP_OVERWROTE_RUNNING
    ),
    "h5_skip_looks_again": Case(
        Setting(events=(0, 0), faults=0, revocations=1), Violation.SKIP_OF_HANDLED
    ),
    "h6_sweep_repeats_the_lease": Case(ACCEPTED, Violation.SWEPT_ALIVE),
    "h6_sweep_is_one_transaction": Case(Setting(faults=2), Violation.ORPHAN_RUN),
    "h6_sweep_fails_no_other_run": Case(ONE, Violation.SWEPT_ANOTHER),
    "h7_take_over_fails_the_superseded": Case(TWO_WITH_A_FAULT, Violation.TWO_LIVE_RUNS),
    "h8_message_starts_the_tries_anew": Case(Setting(events=(0, 1), at_once=1)),
    "h8_failure_counts_a_try": Case(Setting(faults=2), Violation.HEALED_BEYOND_BOUND),
    "h9_end_only_with_the_job": Case(ONE, Violation.FAILED_THEN_SUCCEEDED),
    "h10_completion_holds_its_own_generation": Case(ACCEPTED, Violation.LATE_WRITE),
    "h10_accepted_releases_nothing": Case(ACCEPTED, Violation.RELEASED_AT_WORK),
    "h11_unique_violation_rolls_back": Case(TWICE, Violation.CLAIM_WITHOUT_RUN),
    "h12_healing_key_is_fresh": Case(Setting(faults=2)),
    "h12_message_key_is_fresh": Case(Setting(faults=3, at_once=1)),
    "h13_redrive": Case(Setting(faults=3, at_once=1)),
}

COVERED_BY_OTHERS: Final[Mapping[str, str]] = {
    "eb_07_dedupe": (
        "An event that has its run row and comes again is stopped later anyway: at the claim by "
        "H1 or H11, at a skip by H5. Dedupe is the cheap early end, and the one that an operator "
        "sees; the promise does not hang on it."
    ),
}
"""Rules whose absence alone shows nowhere, each with why."""

assert set(CASES) | set(COVERED_BY_OTHERS) == set(RULE_NAMES)


@cache
def without(rule: str) -> Found:
    """Explore the rule's setting with the rule off, up to what it is known to break."""
    case = CASES[rule]
    return search(Model(Rules.without(rule), case.setting), until=case.violation)


def counterexample(rule: str) -> Trace:
    """Return the shortest trace that shows the rule's absence.

    Raises:
        LookupError: nothing shows it.
    """
    found, case = without(rule), CASES[rule]
    trace = found.trap if case.violation is None else found.violations.get(case.violation)
    if trace is None:
        raise LookupError(f"without {rule} nothing breaks: {found}")
    return trace


def table() -> str:
    """Return each rule's absence with its shortest trace."""
    parts = []
    for rule, case in CASES.items():
        what = case.violation or "a trap: nothing leads to a good end any more"
        parts.append(f"without {rule}: {what}\n{shown(counterexample(rule))}")
    parts += [f"without {rule}: nothing. {why}" for rule, why in COVERED_BY_OTHERS.items()]
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(table())  # noqa: T201 - what it is called for
