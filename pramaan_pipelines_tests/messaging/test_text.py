"""`safe_text` on what strangers write."""

import re
import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pramaan_pipelines.contracts.text import safe_text

KEY_ID = "AKIA" + "IOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
SIGNATURE = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"


@given(st.text(st.characters(codec=None, categories=None), max_size=700), st.integers(1, 600))
def test_any_text_becomes_one_bounded_line_that_can_be_stored(text: str, limit: int) -> None:
    safe = safe_text(text, limit)
    assert len(safe) <= limit
    assert safe.encode() is not None
    assert not any(unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in safe)


@pytest.mark.parametrize(
    "secret",
    [
        f"the key {KEY_ID} is unknown",
        f"key={SECRET}",
        f"the secret was {SECRET}.",
        f"Authorization: AWS4-HMAC-SHA256 Credential={KEY_ID}/20261001/us-east-1, "
        f"Signature={SIGNATURE}",
        f"https://sqs.example/?X-Amz-Signature={SIGNATURE}&X-Amz-Security-Token=abc/def%3D",
        f'the canonical hash should be "{SIGNATURE}"',
        "postgresql://pramaan:hunter2@db/pramaan",
        "https://hunter2@sqs.example/q",
        "postgresql://pramaan:hunter2/a@b@db/pramaan",
        'password: "hunter2"',
        "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.hunter2-x",
        f"'aws_secret_access_key': '{SECRET}'",
        "IQoJb3JpZ2luX2VjE" + "A" * 400 + "==",
    ],
)
def test_secrets_do_not_come_through(secret: str) -> None:
    safe = safe_text(secret)
    for part in (KEY_ID, SECRET, SIGNATURE, "hunter2", "A" * 60, "abc/def"):
        assert part not in safe


def test_a_secret_cut_in_half_by_the_reading_bound_does_not_come_through() -> None:
    for offset in range(19_950, 20_005):
        safe = safe_text("\x00" * offset + " " + SECRET)
        assert not re.search(r"wJalr", safe)


def test_what_helps_an_operator_stays() -> None:
    text = (
        "QueueDoesNotExist: no queue arn:aws:sqs:eu-west-1:000000000000:pramaan-framer-events-dev "
        "at https://sqs.eu-west-1.amazonaws.com/000000000000/pramaan-framer-events-dev, request "
        "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
    )
    assert safe_text(text) == text


def test_a_cut_is_shown_and_lines_are_joined() -> None:
    assert safe_text("a\r\n\tb\u2028c\x00d\ud800") == "a b cd"
    assert safe_text("words " * 200, 20) == "words words words w…"


def test_megabytes_take_no_time() -> None:
    started = time.perf_counter()
    for text in ("a" * 5_000_000, "://" * 2_000_000, "token=" * 900_000, " " * 5_000_000):
        assert len(safe_text(text)) <= 500
    assert time.perf_counter() - started < 2
