"""The ledger: what was produced against how it ended, and what must be zero.

Promises: each event is counted under exactly one end, from what stands in the tables, on the queues
and in the journal, never from what a worker believed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from uuid import UUID

from pramaan_pipelines.contracts.outcomes import Outcome
from pramaan_pipelines.framer.dead_letters import DeadLetters
from pramaan_pipelines.framer.healing import FrameHealing
from pramaan_pipelines.messaging.clients import client
from pramaan_pipelines.messaging.consumer import QueueConsumer
from pramaan_pipelines.messaging.letters import Letter, Which
from pramaan_pipelines.store.database import Database
from pramaan_pipelines_tests.soak.site import DOCUMENT_TABLE, DOMAIN_TABLE, MAX_TRIES, Site
from pramaan_pipelines_tests.soak.traffic import Traffic

ROWS: Final = """
    SELECT event_id, dispatched_at IS NOT NULL, parked_at IS NOT NULL FROM {table}
"""
EVENTS: Final = f"""
    SELECT event_id, (envelope -> 'subject' ->> 'id')::uuid FROM {DOMAIN_TABLE}
"""  # noqa: S608 - a name of ours
RUNS: Final = """
    SELECT matter_id, claimed_generation, trigger_event_id, status FROM agents.agent_run
"""
PENDING: Final = f"""
    SELECT (SELECT count(*) FROM {DOCUMENT_TABLE}
            WHERE dispatched_at IS NULL AND parked_at IS NULL)
         + (SELECT count(*) FROM {DOMAIN_TABLE}
            WHERE dispatched_at IS NULL AND parked_at IS NULL)
"""  # noqa: S608 - names of ours
UNDER_WAY: Final = "SELECT count(*) FROM ops.matter_frame_jobs WHERE run_status = 'running'"
OWED: Final = """
    SELECT count(*) FROM ops.matter_frame_jobs AS job
    WHERE (run_status <> 'idle' OR rebuild_needed)
      AND EXISTS (SELECT 1 FROM firm_inference_egress_consents AS consent
                  WHERE consent.firm_id = job.firm_id AND granted)
"""
NO_END: Final = "without an end"
HARMLESS: Final = frozenset({"OperationalError", "DatabaseUnavailableError"})
"""What a worker meets whose connection was cut."""


class Upkeep:
    """What a person does once the faults have ended, by the buttons that there are."""

    def __init__(self, site: Site) -> None:
        settings = site.settings
        self._site = site
        self._database = Database.connect(settings.database_url)
        self._queues = [
            QueueConsumer(client("sqs", settings), settings.require(name))
            for name in (
                "framer_events_queue_url",
                "document_ingestion_queue_url",
                "document_registration_queue_url",
            )
        ]
        self._letters = DeadLetters.of(settings, self._queues[0], self._database)
        self._healing = FrameHealing(self._database, max_tries=MAX_TRIES)
        self.redriven = 0
        self.rebuilt = 0

    def press(self) -> None:
        """Redrive the dead letters that would pass now, and rebuild what healing gave up."""
        letters = self._letters.redrive(Which.PASSING, dry_run=False)
        self.redriven += sum(letter.redriven for letter in letters)
        for frame in self._healing.given_up().named:
            self.rebuilt += self._healing.request_rebuild(frame.firm_id, frame.matter_id)

    def open_ends(self) -> dict[str, int]:
        """Count what is not at its end yet."""
        return {
            "rows pending": self._site.one(PENDING),
            "messages": sum(queue.depth().total for queue in self._queues),
            "frames under way": self._site.one(UNDER_WAY),
            "frames owed": self._site.one(OWED),
            "good dead letters": sum(letter.reason is None for letter in self.letters()),
        }

    def letters(self) -> list[Letter]:
        """Look at the dead letters."""
        return self._letters.look()

    def close(self) -> None:
        """Close the connections."""
        self._database.close()


@dataclass
class Ledger:
    """The sums. `must_be_zero` decides; the rest tells what it was like."""

    documents: dict[str, int] = field(default_factory=dict)
    events: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    must_be_zero: dict[str, int] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether nothing was lost, and nothing is left."""
        return not any(self.must_be_zero.values())

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {**asdict(self), "good": self.good}

    def __str__(self) -> str:
        parts = []
        for title, counts in asdict(self).items():
            parts.append(title.replace("_", " ").upper())
            parts += [f"  {name:<52}{count:>8}" for name, count in counts.items()]
        return "\n".join([*parts, "GOOD" if self.good else "NOT GOOD"])


def close_the_books(site: Site, traffic: Traffic, upkeep: Upkeep) -> Ledger:
    """Count everything."""
    ledger = Ledger()
    lines = defaultdict[str, list[dict[str, Any]]](list)
    for line in site.journal.read()[0]:
        lines[line["kind"]].append(line)
    _documents(site, lines["arrived"], ledger)
    letters = upkeep.letters()
    _events(site, traffic, lines["outcome"], letters, ledger)
    there = {row[0] for table in (DOCUMENT_TABLE, DOMAIN_TABLE) for row in _rows(site, table)}
    errors = Counter(line["type"] for line in lines["error"])
    ledger.faults |= {
        "connections cut": traffic.cuts,
        "commits that nobody confirmed": traffic.doubts,
        **{f"errors told: {kind}": count for kind, count in sorted(errors.items())},
        "deliveries of messages to a framer": len(lines["delivery"]),
        "calls of the agent's runtime": len(lines["invoke"]),
        "frames taken up by healing": len(lines["healing"]),
        "frame jobs swept": sum(line["jobs"] for line in lines["swept"]),
        "dead letters redriven": upkeep.redriven,
        "frames rebuilt by hand": upkeep.rebuilt,
    }
    hostile = {letter.message_id for letter in letters}
    ledger.must_be_zero |= {
        "rows lost": len(traffic.produced - there),
        "agent runs beyond one of an event": _surplus(site),
        "matters with an owed frame": site.one(OWED),
        "hostile messages not on the dead-letter queue": len(traffic.hostile - hostile),
        "dead letters that are not hostile": len(hostile - traffic.hostile),
        "errors of another kind": sum(errors[kind] for kind in errors.keys() - HARMLESS),
        **upkeep.open_ends(),
    }
    return ledger


def _rows(site: Site, table: str) -> list[tuple[Any, ...]]:
    return site.rows(ROWS.format(table=table))


def _documents(site: Site, arrivals: Iterable[dict[str, Any]], ledger: Ledger) -> None:
    messages = defaultdict[UUID, set[str]](set)
    for line in arrivals:
        messages[UUID(line["event"])].add(line["message"])
    ends: Counter[str] = Counter()
    for event, dispatched, parked in _rows(site, DOCUMENT_TABLE):
        ends["produced"] += 1
        if parked:
            ends["parked"] += 1
        elif dispatched and messages[event]:
            ends["delivered"] += 1
            ends["further copies delivered"] += len(messages[event]) - 1
        else:
            ends["lost"] += 1
    ledger.documents |= {name: ends[name] for name in ("produced", "delivered", "parked")}
    ledger.documents["further copies delivered"] = ends["further copies delivered"]
    ledger.must_be_zero["documents lost"] = ends["lost"]
    ledger.must_be_zero["documents parked"] = ends["parked"]


@dataclass
class Evidence:
    """What is known of the domain events, from the tables, the dead letters and the journal.

    Attributes:
        giants: events that can never be sent.
        started: events that have their agent run.
        blocked: events that a skip was written for.
        lost_to: events that lost a claim, each with a generation that the holder's was not under.
        framed: the last generation that built a frame, by matter.
        dead: events on the dead-letter queue.
    """

    giants: set[UUID]
    started: set[UUID] = field(default_factory=set)
    blocked: set[UUID] = field(default_factory=set)
    lost_to: dict[UUID, int] = field(default_factory=dict)
    framed: Counter[UUID] = field(default_factory=Counter)
    dead: set[str | None] = field(default_factory=set)

    def end_of(self, event: UUID, matter: UUID, *, dispatched: bool, parked: bool) -> str:
        """Return the one end of an event."""
        if event in self.giants:
            return "parked, too large" if parked else NO_END
        if parked or not dispatched:
            return NO_END
        if event in self.started:
            return str(Outcome.STARTED)
        if event in self.blocked:
            return str(Outcome.CONSENT_BLOCKED)
        if self.framed[matter] > self.lost_to.get(event, self.framed[matter]):
            return "claim_lost, covered by a later frame"
        return "refused, on the dead-letter queue" if str(event) in self.dead else NO_END


def _events(
    site: Site,
    traffic: Traffic,
    told: Iterable[dict[str, Any]],
    letters: list[Letter],
    ledger: Ledger,
) -> None:
    known = Evidence(traffic.giants, dead={letter.event_id for letter in letters})
    duplicates = 0
    for line in told:
        if line["event"] is None:
            continue
        event, outcome = UUID(line["event"]), line["outcome"]
        duplicates += outcome == Outcome.DUPLICATE
        if outcome == Outcome.CONSENT_BLOCKED:
            known.blocked.add(event)
        if outcome == Outcome.CLAIM_LOST:
            known.lost_to[event] = max(line["before"], known.lost_to.get(event, 0))
    for matter, generation, event, status in site.rows(RUNS):
        known.started |= {event} - {None}
        if status == "succeeded":
            known.framed[matter] = max(known.framed[matter], generation)
    places = {row[0]: row[1:] for row in _rows(site, DOMAIN_TABLE)}
    ends: Counter[str] = Counter()
    for event, matter in site.rows(EVENTS):
        dispatched, parked = places[event]
        ends[known.end_of(event, matter, dispatched=dispatched, parked=parked)] += 1
    ledger.must_be_zero["events without an end"] = ends.pop(NO_END, 0)
    ledger.events |= {"produced": len(places), **dict(sorted(ends.items()))}
    ledger.faults |= {
        "hostile messages": len(traffic.hostile),
        "good messages sent again": traffic.copies,
        "deliveries that ended as duplicate": duplicates,
    }


def _surplus(site: Site) -> int:
    return int(
        site.one(
            "SELECT count(trigger_event_id) - count(DISTINCT trigger_event_id) "
            "FROM agents.agent_run"
        )
    )
