"""Answers of workers in files: those of earlier versions can be read, and damaged ones are rejected."""

from typing import Any

import pytest
from pydantic_core import from_json, to_json

from tcpassay.finding import Finding, Row, Severity
from tcpassay.messages import Answer
from tcpassay.run.answers import answer_of, payload_of

ROW = Row(7, 1_000, "sender", "flow.0", "timer_fire", "Rto", {"seq": 1, "ce": True})
FOUND = Finding(
    "late-ack", Severity.ERROR, "an ACK is late", "receiver", "flow.0", 5, 9, 2, "text", (ROW,), (3,)
)


def test_an_answer_is_the_same_after_it_was_stored() -> None:
    metrics = {"goodput": 1.5, "rtt_p50": None}
    answer = Answer(
        "done", "", "t", "d", metrics, 0.25, 0.125, kept=True, findings=[FOUND], reached={"undo": 2}
    )
    stored = from_json(to_json(payload_of(answer)))
    assert list(stored) == [
        "message", "trace", "digest", "metrics", "cpu_s", "simulation_s", "kept", "findings", "unjudged", "reached",
        "covered",
    ]  # fmt: skip
    assert stored["findings"][0]["events"][0] == {
        "index": 7, "time_ns": 1_000, "host": "sender", "flow": "flow.0", "kind": "timer_fire", "why": "Rto",
        "values": {"seq": 1, "ce": True},
    }  # fmt: skip
    assert answer_of("done", stored) == answer


def test_fields_that_an_earlier_version_did_not_write_have_their_defaults() -> None:
    assert answer_of("failed", {"message": "a bug", "cpu_s": 0.5}) == Answer("failed", "a bug", cpu_s=0.5)
    assert answer_of("crashed", None) == Answer("crashed")


@pytest.mark.parametrize(
    "damaged",
    [
        {"more": 1},
        {"outcome": "done"},
        {"metrics": {"goodput": "many"}},
        {"metrics": [1.5]},
        {"findings": [{"oracle": "late-ack"}]},
        {"kept": "perhaps"},
        [],
    ],
)
def test_a_stored_value_that_is_no_answer_is_treated_as_damaged(damaged: Any) -> None:
    assert answer_of("done", damaged or [1]) is None
