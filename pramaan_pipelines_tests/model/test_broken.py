"""Each rule switched off alone: what goes wrong, by a shortest trace, and only because of it.

A rule of `Rules` that has no test here stands in `COVERED_BY_OTHERS` with why, and is tested last.
Of the contract's H8, "a take-over counts one" has no switch: only a message takes over an expired
lease (a healing claim needs a job that is not running), and a message starts the tries anew.
"""

import pytest

from pramaan_pipelines_tests.model.broken import CASES, COVERED_BY_OTHERS, counterexample, without
from pramaan_pipelines_tests.model.rules import RULE_NAMES, Model, Rules, Setting
from pramaan_pipelines_tests.model.search import search, shown


def assert_breaks(rule: str, by: str) -> None:
    """Require that the rule's absence shows, with `by` as its last step, and its presence not."""
    case, trace = CASES[rule], counterexample(rule)
    told = f"without {rule}: {case.violation or 'trap'}\n{shown(trace)}"
    assert str(trace[-1]) == by, told
    whole = search(Model(Rules(), case.setting))
    assert not whole.violations, str(whole)
    assert whole.trap is None, str(whole)
    if case.violation is not None:
        assert case.violation in without(rule).violations, told


def test_without_eb_17_coherence_a_forged_envelope_makes_an_agent_run() -> None:
    assert_breaks("eb_17_coherence", by="run m0#1 claim: wins generation 1")


def test_without_eb_16_exclusive_claim_a_live_claim_is_taken_over() -> None:
    assert_breaks("eb_16_exclusive_claim", by="run m1#1 claim: wins generation 2")


def test_without_eb_16_claim_clears_rebuild_a_mark_set_during_the_build_is_lost() -> None:
    assert_breaks("eb_16_claim_clears_rebuild", by="run m1#1 claim: lost, and marks rebuild_needed")


def test_without_eb_18_fenced_release_a_zombie_gives_back_what_it_lost() -> None:
    assert_breaks("eb_18_fenced_release", by="run m0#1 g1 release: given back")


def test_without_eb_18_sweep_a_dead_worker_holds_its_job_for_ever() -> None:
    assert_breaks(
        "eb_18_sweep", by="run m0#1 claim: wins generation 1, and is executed again [fault]"
    )


def test_without_delete_after_commit_a_message_dies_with_its_tick() -> None:
    assert_breaks("delete_after_commit", by="sensor m0 receives and its tick dies [fault]")


def test_without_fence_before_invoke_a_lost_claim_calls_its_agent() -> None:
    assert_breaks("fence_before_invoke", by="run m0#1 g1 invoke: done")


def test_without_healing_a_failed_job_stays_failed() -> None:
    assert_breaks("healing", by="run m0#1 claim: wins generation 1, and is executed again [fault]")


def test_without_h1_lost_claim_looks_again_a_duplicate_asks_for_a_rebuild() -> None:
    assert_breaks("h1_lost_claim_looks_again", by="healing run claim: wins generation 2")


def test_without_h1_mark_with_the_lost_claim_a_late_mark_asks_for_a_rebuild() -> None:
    assert_breaks("h1_mark_with_the_lost_claim", by="healing run claim: wins generation 3")


def test_without_h2_healing_skips_dedupe_a_healing_run_is_a_duplicate_for_ever() -> None:
    assert_breaks(
        "h2_healing_skips_dedupe",
        by="run m0#1 claim: wins generation 1, and is executed again [fault]",
    )


def test_without_h2_healing_takes_the_pending_event_a_healed_event_is_framed_again() -> None:
    assert_breaks("h2_healing_takes_the_pending_event", by="run m2#1 claim: wins generation 3")


def test_without_h3_healing_claim_repeats_its_need_a_second_healing_run_builds_again() -> None:
    assert_breaks("h3_healing_claim_repeats_its_need", by="healing run claim: wins generation 3")


def test_without_h3_lost_healing_marks_nothing_healing_feeds_itself() -> None:
    assert_breaks("h3_lost_healing_marks_nothing", by="healing run claim: wins generation 3")


def test_without_h4_consent_in_the_claim_a_run_row_is_written_without_consent() -> None:
    assert_breaks("h4_consent_in_the_claim", by="run m0#1 claim: wins generation 1")


def test_without_h4_consent_at_the_fence_the_last_look_passes_without_consent() -> None:
    assert_breaks("h4_consent_at_the_fence", by="run m0#1 g1 fence: held")


def test_without_h4_subject_in_the_claim_a_run_row_is_written_for_a_matter_that_is_gone() -> None:
    assert_breaks("h4_subject_in_the_claim", by="run m0#1 claim: wins generation 1")


def test_without_h4_subject_at_the_fence_the_last_look_passes_a_matter_that_is_gone() -> None:
    assert_breaks("h4_subject_at_the_fence", by="run m0#1 g1 fence: held")


def test_without_h5_skip_keeps_running_a_skip_takes_a_claim_away() -> None:
    assert_breaks("h5_skip_keeps_running", by="run m1#1 skip: consent_blocked")


def test_without_h5_skip_looks_again_a_handled_event_is_recorded_as_skipped() -> None:
    assert_breaks("h5_skip_looks_again", by="run m1#1 skip: consent_blocked")


def test_without_h6_sweep_repeats_the_lease_the_sweep_fails_a_job_that_gave_a_sign_of_life() -> (
    None
):
    assert_breaks("h6_sweep_repeats_the_lease", by="sweep fails: whatever the lease says now")


def test_without_h6_sweep_is_one_transaction_an_agent_run_outlives_its_job() -> None:
    assert_breaks(
        "h6_sweep_is_one_transaction", by="sweep fails: the job; its agent run comes next"
    )


def test_without_h6_sweep_fails_no_other_run_the_sweep_fails_the_heir_s_run() -> None:
    assert_breaks("h6_sweep_fails_no_other_run", by="sweep fails the agent run")


def test_without_h7_take_over_fails_the_superseded_two_agent_runs_are_live() -> None:
    assert_breaks("h7_take_over_fails_the_superseded", by="run m1#1 claim: wins generation 2")


def test_without_h8_message_starts_the_tries_anew_a_new_event_pays_for_an_old_one_s_tries() -> None:
    assert_breaks(
        "h8_message_starts_the_tries_anew",
        by="run m1#1 claim: wins generation 2, and is executed again [fault]",
    )


def test_without_h8_failure_counts_a_try_healing_knows_no_bound() -> None:
    assert_breaks("h8_failure_counts_a_try", by="healing run claim: wins generation 3")


def test_without_h9_end_only_with_the_job_a_failed_run_succeeds() -> None:
    assert_breaks("h9_end_only_with_the_job", by="run m0#1 g1 release: no row, but ends its run")


def test_without_h10_completion_holds_its_own_generation_an_old_agent_ends_its_heir_s_job() -> None:
    assert_breaks("h10_completion_holds_its_own_generation", by="agent g1 completes")


def test_without_h10_accepted_releases_nothing_a_job_is_given_back_while_its_agent_works() -> None:
    assert_breaks("h10_accepted_releases_nothing", by="run m0#1 g1 release: given back")


def test_without_h11_unique_violation_rolls_back_a_claim_stands_without_a_run_row() -> None:
    assert_breaks(
        "h11_unique_violation_rolls_back", by="run m1#1 claim: the claim stays, without a run row"
    )


def test_without_h12_healing_key_is_fresh_a_healing_run_that_died_is_the_last() -> None:
    assert_breaks("h12_healing_key_is_fresh", by="healing run dies before consent [fault]")


def test_without_h12_message_key_is_fresh_a_redriven_message_makes_no_run() -> None:
    assert_breaks("h12_message_key_is_fresh", by="run m0#3 dies before dedupe [fault]")


def test_without_h13_redrive_a_good_message_rests_on_the_dlq() -> None:
    assert_breaks("h13_redrive", by="sensor m0 receives and its tick dies [fault]")


ELSEWHERE = [
    Setting(events=(0, 0), faults=1),
    Setting(events=(0, 0), faults=0, revocations=2),
    Setting(events=(0, 1, 1), faults=0),
    Setting(faults=2, accepted=True),
]


@pytest.mark.parametrize("setting", ELSEWHERE, ids=str)
@pytest.mark.parametrize("rule", COVERED_BY_OTHERS)
def test_a_rule_that_others_stand_behind_shows_nowhere(rule: str, setting: Setting) -> None:
    found = search(Model(Rules.without(rule), setting))
    assert not found.violations, str(found)
    assert found.trap is None, str(found)


def test_every_rule_has_its_test() -> None:
    told = {name for name in globals() if name.startswith("test_without_")}
    for rule in RULE_NAMES:
        if rule not in COVERED_BY_OTHERS:
            assert any(name.startswith(f"test_without_{rule}_") for name in told), rule
