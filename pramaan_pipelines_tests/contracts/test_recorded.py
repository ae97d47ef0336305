"""Envelopes as each released version wrote them stay readable: some still wait in a queue or a row.

A file is added with each version of an event, and none is ever changed.
"""

import json
from pathlib import Path

import pytest

from pramaan_pipelines.contracts.envelopes import (
    DocumentEnvelope,
    parse_matter_created,
    pointer_body,
)
from pramaan_pipelines.contracts.event_types import EventType

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: str(path.stem))
def test_an_envelope_of_each_version_so_far_is_read_as_it_was_meant(path: Path) -> None:
    text = path.read_text()
    value = json.loads(text)
    meant = value.get("detail", value)
    if path.name.startswith("document"):
        document = DocumentEnvelope.model_validate_json(text)
        assert str(document.document_id) == meant["document_id"]
        found = document.model_dump(mode="json")
    else:
        created = parse_matter_created(text)
        assert parse_matter_created(pointer_body(text)) == created  # as a run keeps it
        assert str(created.matter_id) == meant["subject"]["id"]
        found = created.model_dump(mode="json")
    for key in ("event_id", "firm_id", "event_type"):
        assert found[key] == meant[key]
    assert found["traceparent"] == meant.get("traceparent")


def test_every_event_type_has_a_recording() -> None:
    stems = {path.name.split(".")[0] for path in RECORDED}
    assert stems == {event.value.replace(".", "_") for event in EventType}
