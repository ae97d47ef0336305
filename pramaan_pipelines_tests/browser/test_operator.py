"""What somebody on call finds by clicking: the road, a stop at consent, a red check, a backfill."""

import re

import pytest
from playwright.sync_api import expect
from sqlalchemy import text

from pramaan_pipelines.local.seed import ASHA
from pramaan_pipelines_tests.browser.person import Person
from pramaan_pipelines_tests.browser.stack import DevStack

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(900)]

GROUPS = ("framer", "messaging", "outbox", "application")
ROAD = (
    "documents",
    "matters",
    "document_ingest_outbox",
    "domain_event_outbox",
    "documents_ingestion_queue",
    "documents_registration_queue",
    "events_bus",
    "framer_events_queue",
    "matter_frame_jobs",
    "agent_run",
    "vega_matter_frame",
)
NOBODYS_ROW = text("""
    INSERT INTO ops.domain_event_outbox (event_id, firm_id, event_type, envelope)
    VALUES (gen_random_uuid(), :firm, 'matter.nobody_listens', '{}')
""")


def test_the_road_is_found_under_lineage_from_the_application_to_the_agent(person: Person) -> None:
    person.goes_to("Lineage")
    for group in GROUPS:
        # The last of that name is in the graph; the first is in the tree beside it.
        person.reads(group)
        person.page.get_by_text(group, exact=True).last.dblclick()
        person.page.wait_for_url(f"**expanded=*{group}*")
    for asset in ROAD:
        # A long name is shortened in its middle.
        shown = re.compile(rf"^({asset}|{asset[:4]}.*….*{asset[-5:]})$")
        person.page.get_by_text(shown).first.wait_for()
    person.takes_a_picture("road")


def test_a_framer_run_that_stopped_at_consent_is_found_by_its_outcome(person: Person) -> None:
    """The sample data has a firm that was never asked for its consent."""
    person.opens_job("framer_trigger_job", "runs")
    with person.sees_far():
        # The firm's matters come now and then: the newest runs may all be of others.
        person.reads_after_reloading("pramaan/outcome: consent_blocked").click()
        person.reads("Add tag to filter").click()
    person.page.wait_for_url("**consent_blocked**")
    person.page.get_by_text("pramaan/gate: consent").first.wait_for()
    expect(person.page.get_by_text("pramaan/gate: release")).to_have_count(0, timeout=60_000)
    person.opens_the_first_run()
    person.reads("framer_trigger_job")
    person.page.get_by_text("Success", exact=True).first.wait_for()
    person.page.get_by_text("consent_blocked", exact=True).first.wait_for()
    person.takes_a_picture("stopped-at-consent")
    # What comes after the gate was not done: no claim, and so no agent.
    person.page.get_by_placeholder("Filter…").fill("step:claim")
    person.reads("STEP_SKIPPED")
    assert person.page.get_by_text("STEP_SUCCESS").count() == 0


def test_a_row_that_no_lane_drains_is_found_as_a_red_check_that_says_what_to_do(
    person: Person, stack: DevStack
) -> None:
    with stack.database.firm(ASHA.id) as connection:
        connection.execute(NOBODYS_ROW, {"firm": ASHA.id})
    person.goes_to("Catalog")
    person.link("assets/outbox/domain_event_outbox").click()
    person.page.get_by_text("Checks", exact=True).first.click()
    person.reads("rows_without_a_lane").click()
    person.reads_after_reloading("what_to_do")
    person.reads("add a lane for the type in outbox/lanes.py, or mend the producer")
    person.page.get_by_text("Failed", exact=True).first.wait_for()
    person.takes_a_picture("red-check")
    person.reads("[Show Markdown]").click()
    person.reads("matter.nobody_listens")


def test_a_day_is_replayed_by_a_backfill_from_the_jobs_partitions(person: Person) -> None:
    person.opens_job("domain_event_replay_job", "partitions")
    person.presses("Launch backfill")
    person.presses("Latest")
    person.presses("Add tags to backfill runs")
    person.page.get_by_placeholder("Tag Key").last.fill("pramaan/also_sent")
    person.page.get_by_placeholder("Tag Value").last.fill("true")
    person.presses("Apply")
    person.takes_a_picture("backfill-dialog")
    person.presses("Submit 1 run")
    person.goes_to("Runs")
    person.page.get_by_text("Backfills", exact=True).first.click()
    person.reads("domain_event_replay_job")
    person.reads_after_reloading("Success")
    person.takes_a_picture("backfill-done")
    person.opens_job("domain_event_replay_job", "runs")
    person.reads("pramaan/also_sent: true")
    person.opens_the_first_run()
    person.reads(re.compile(r"sent again [1-9]"))
    person.takes_a_picture("backfill-run")
