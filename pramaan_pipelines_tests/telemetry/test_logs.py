"""The process log: one line an outcome, as text or JSON, and nothing twice."""

import json
import os
import subprocess
import sys
from uuid import UUID

import pytest

EVENT = UUID("00000000-0000-4000-8000-000000000001")

WRITE = f"""
import logging
from uuid import UUID
from pramaan_pipelines.telemetry.logs import configure_logging, log_outcome
HOST
configure_logging("FORM")
configure_logging("FORM")
log_outcome("sent", event_id=UUID("{EVENT}"), trace_id="a" * 32, lane="domain_event_relay")
log_outcome("refused", event_id=None, trace_id=None, gate="parse", reason="malformed",
            run_id="r", level=logging.WARNING)
logging.getLogger("pramaan_pipelines.framer").debug("not shown")
try:
    raise ValueError("PRIVILEGED")
except ValueError:
    logging.getLogger("opentelemetry.sdk").warning("not exported", exc_info=True)
"""


def write(form: str, host: str = "") -> list[str]:
    """Return what a fresh process writes to standard error, line by line."""
    code = WRITE.replace("FORM", form)
    done = subprocess.run(
        [sys.executable, "-c", code.replace("\nHOST\n", f"\n{host}\n")],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_json_has_a_line_an_outcome_with_its_fields() -> None:
    sent, refused, exporter = (json.loads(line) for line in write("json"))
    assert sent.pop("time").endswith("+00:00")
    assert sent == {
        "level": "INFO",
        "logger": "pramaan_pipelines.outcomes",
        "event_id": str(EVENT),
        "outcome": "sent",
        "lane": "domain_event_relay",
        "trace_id": "a" * 32,
    }
    assert {key: refused[key] for key in ("level", "outcome", "gate", "reason", "run_id")} == {
        "level": "WARNING",
        "outcome": "refused",
        "gate": "parse",
        "reason": "malformed",
        "run_id": "r",
    }
    assert "event_id" not in refused
    assert (exporter["message"], exporter["error.type"]) == ("not exported", "ValueError")
    assert "PRIVILEGED" not in str(exporter)


def test_text_has_the_same_in_one_line() -> None:
    sent, refused, exporter = write("text")
    told = f"event_id={EVENT} outcome=sent lane=domain_event_relay trace_id={'a' * 32}"
    assert sent.endswith(f"INFO pramaan_pipelines.outcomes: {told}")
    assert refused.endswith("outcome=refused gate=parse reason=malformed run_id=r")
    assert exporter.endswith("not exported error.type=ValueError")


@pytest.mark.parametrize(
    "host",
    [
        "logging.basicConfig(level=logging.INFO, format='HOST %(message)s')",
        "h = logging.StreamHandler(); h.setFormatter(logging.Formatter('HOST %(message)s'));"
        "logging.getLogger('pramaan_pipelines').addHandler(h);"
        "logging.getLogger('pramaan_pipelines').setLevel(logging.INFO)",
    ],
    ids=["root", "ours"],
)
def test_a_host_that_handles_our_lines_stays_the_only_one(host: str) -> None:
    lines = write("json", host)
    assert sum(str(EVENT) in line for line in lines) == 1
    assert sum(line.startswith("HOST event_id=") for line in lines) == 1
    assert not any(line.startswith("{") for line in lines)
