"""The rules of the protocol, each with a switch, and what a search is given to explore.

Promises: every rule is on unless a test says otherwise; `without` switches off exactly one.
"""

from dataclasses import dataclass, fields, replace
from typing import Self


@dataclass(frozen=True)
class Rules:
    """One switch a rule; H1 to H13 are the healing rules' numbers, EB the story's.

    Attributes:
        eb_07_dedupe: an event that has its run row is acknowledged before any other gate.
        eb_17_coherence: a firm that names another firm's matter is refused.
        eb_16_exclusive_claim: a claim wins only a job that is not running, or whose lease is over.
        eb_16_claim_clears_rebuild: the claim clears rebuild_needed, the release leaves it.
        eb_18_fenced_release: a release compares generation and status.
        eb_18_sweep: what a dead worker held is failed by somebody.
        delete_after_commit: the message is deleted last.
        fence_before_invoke: the claim is looked at once more, right before the agent is called.
        healing: a sensor reads the job table and yields runs without a message.
        h1_lost_claim_looks_again: a lost claim looks for its event's run row before it marks.
        h1_mark_with_the_lost_claim: the mark is written by the lost claim's own transaction.
        h2_healing_skips_dedupe: a healing run does not go through dedupe by a message's event.
        h2_healing_takes_the_pending_event: its trigger is the event that the row remembers.
        h3_healing_claim_repeats_its_need: in the claim's own WHERE.
        h3_lost_healing_marks_nothing: a healing run that loses leaves the row as it is.
        h4_consent_in_the_claim: consent is read again inside the claim's transaction.
        h4_consent_at_the_fence: and once more before the invoke.
        h4_subject_in_the_claim: so is whether the matter is still visible.
        h4_subject_at_the_fence: and that too, once more before the invoke.
        h5_skip_keeps_running: a skip never overwrites a running row's status.
        h5_skip_looks_again: a skip looks for its event's run row before it is written.
        h6_sweep_repeats_the_lease: the sweep's UPDATE holds the expired lease in its WHERE.
        h6_sweep_is_one_transaction: job and agent run fail together.
        h6_sweep_fails_no_other_run: only the agent run of the generation that it failed. Off, it
            also stands in a second transaction: in the same one no other run could be running.
        h7_take_over_fails_the_superseded: in the claim's transaction.
        h8_message_starts_the_tries_anew: a message's claim sets failed_tries to 0.
        h8_failure_counts_a_try: a sweep counts one.
        h9_end_only_with_the_job: an agent run's end is written only where the job's
            compare-and-set matched.
        h10_completion_holds_its_own_generation: the one stored on the agent run, never the row's
            current one; a heartbeat too.
        h10_accepted_releases_nothing: the agent's completion does.
        h11_unique_violation_rolls_back: the claim goes with the run row.
        h12_healing_key_is_fresh: a healing run's run_key is not just job and generation.
        h12_message_key_is_fresh: a message's run_key is not just its id and count, which a
            redrive repeats.
        h13_redrive: good messages on the DLQ are put back.
    """

    eb_07_dedupe: bool = True
    eb_17_coherence: bool = True
    eb_16_exclusive_claim: bool = True
    eb_16_claim_clears_rebuild: bool = True
    eb_18_fenced_release: bool = True
    eb_18_sweep: bool = True
    delete_after_commit: bool = True
    fence_before_invoke: bool = True
    healing: bool = True
    h1_lost_claim_looks_again: bool = True
    h1_mark_with_the_lost_claim: bool = True
    h2_healing_skips_dedupe: bool = True
    h2_healing_takes_the_pending_event: bool = True
    h3_healing_claim_repeats_its_need: bool = True
    h3_lost_healing_marks_nothing: bool = True
    h4_consent_in_the_claim: bool = True
    h4_consent_at_the_fence: bool = True
    h4_subject_in_the_claim: bool = True
    h4_subject_at_the_fence: bool = True
    h5_skip_keeps_running: bool = True
    h5_skip_looks_again: bool = True
    h6_sweep_repeats_the_lease: bool = True
    h6_sweep_is_one_transaction: bool = True
    h6_sweep_fails_no_other_run: bool = True
    h7_take_over_fails_the_superseded: bool = True
    h8_message_starts_the_tries_anew: bool = True
    h8_failure_counts_a_try: bool = True
    h9_end_only_with_the_job: bool = True
    h10_completion_holds_its_own_generation: bool = True
    h10_accepted_releases_nothing: bool = True
    h11_unique_violation_rolls_back: bool = True
    h12_healing_key_is_fresh: bool = True
    h12_message_key_is_fresh: bool = True
    h13_redrive: bool = True

    @classmethod
    def without(cls, rule: str) -> Self:
        """Return all rules but one."""
        return replace(cls(), **{rule: False})


RULE_NAMES = tuple(field.name for field in fields(Rules))


@dataclass(frozen=True)
class Setting:
    """What a search explores.

    Attributes:
        events: the event of each message, in the order in which they are sent.
        forged: events whose firm names another firm's matter.
        faults: how many faults may happen in all.
        at_once: how many Dagster runs may be under way.
        accepted: the agent answers "accepted" and completes later, rather than "done".
        consent: whether the firm consents at the start.
        revocations: how often consent may be revoked.
        vanishes: whether the matter may be removed.
        bound: how many failed tries in a row are healed.
        max_receives: after which the queue moves a message to the DLQ.
    """

    events: tuple[int, ...] = (0,)
    forged: frozenset[int] = frozenset()
    faults: int = 2
    at_once: int = 2
    accepted: bool = False
    consent: bool = True
    revocations: int = 0
    vanishes: bool = False
    bound: int = 1
    max_receives: int = 3


@dataclass(frozen=True)
class Model:
    """A protocol: its rules, in a setting."""

    rules: Rules
    setting: Setting

    def event_of(self, message: int) -> int:
        """Return the event that a run of `message` carries; none for a healing run."""
        return self.setting.events[message] if message >= 0 else -1
