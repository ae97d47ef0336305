"""What crosses a boundary has one definition, and what the sets hold is all there is."""

import subprocess
import sys
from uuid import uuid4

import pytest
from pydantic import ValidationError

from pramaan_pipelines.contracts.event_types import EventType
from pramaan_pipelines.contracts.invoke import FRAME_AGENT_KEY, InvokePayload
from pramaan_pipelines.contracts.outcomes import Outcome, RefusalReason, SkipReason
from pramaan_pipelines.contracts.trace import TraceContext
from pramaan_pipelines.outbox.lanes import LANES, OUTBOXES
from pramaan_pipelines_tests.support.world import TRACEPARENT, TRACESTATE


def test_every_event_type_has_exactly_one_lane() -> None:
    """A baton that no runner picks up is the catastrophe; one that two pick up goes twice."""
    assert sorted(lane.event_type for lane in LANES) == sorted(EventType)


def test_no_two_lanes_share_what_tells_them_apart() -> None:
    for what in ("name", "event_type", "span", "metric"):
        values = [getattr(lane, what) for lane in LANES]
        assert len(set(values)) == len(values), what
    assert {lane.outbox for lane in LANES} == set(OUTBOXES)


def test_eb02_the_invoke_payload_has_exactly_five_keys() -> None:
    payload = InvokePayload(
        firm_id=uuid4(), matter_id=uuid4(), agent_run_id=uuid4(), traceparent=None, tracestate=None
    )
    assert set(payload.model_dump(mode="json")) == {
        "firm_id",
        "matter_id",
        "agent_run_id",
        "traceparent",
        "tracestate",
    }
    with pytest.raises(ValidationError):
        InvokePayload.model_validate({**payload.model_dump(), "title": "In re"})


def test_the_closed_sets_are_those_of_the_stories() -> None:
    assert {str(o) for o in Outcome} == {
        "started",
        "duplicate",
        "consent_blocked",
        "claim_lost",
        "refused",
    }
    assert {str(r) for r in RefusalReason} == {
        "malformed",
        "wrong_environment",
        "subject_not_visible",
    }
    assert [str(r) for r in SkipReason] == ["consent_blocked"]
    assert FRAME_AGENT_KEY == "vega_matter_frame"


@pytest.mark.parametrize(
    "state",
    [
        TRACESTATE,
        "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
        "a=1, b=2 ,c=3",
        "tenant@system=x;y:z",
        ",".join(f"k{n}=v" for n in range(32)),
        "k=" + "v" * 256,
    ],
)
def test_eb04_a_well_formed_pair_is_kept_to_the_letter(state: str) -> None:
    for flags in ("00", "01", "03", "ff"):
        parent = TRACEPARENT[:-2] + flags
        assert TraceContext.of(parent, state) == (parent, state)
    assert TraceContext.of(TRACEPARENT, state).trace_id == "0af7651916cd43dd8448eb211c80319c"


def test_eb04_a_state_without_a_parent_means_nothing() -> None:
    assert TraceContext.of(None, TRACESTATE) == TraceContext()
    assert TraceContext().trace_id is None


@pytest.mark.parametrize(
    "module", ["contracts", "telemetry", "store", "settings", "outbox.lanes", "framer.claims"]
)
def test_an_import_needs_no_setting_and_opens_no_connection(module: str) -> None:
    code = (
        "import socket\n"
        "def no(*a, **k): raise SystemExit('a connection at import')\n"
        "socket.socket.connect = no\n"
        f"import pramaan_pipelines.{module}\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={"PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
