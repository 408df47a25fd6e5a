"""Answers of workers in a journal and in the rows of runs."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Final

from pydantic import TypeAdapter, ValidationError

from tcpassay.messages import Answer
from tcpassay.result_format import EndedRow

# The journal has the outcome in a column of its own; an answer from outside, or before a pause, is never recorded.
_STORED: Final = tuple(one.name for one in fields(Answer) if one.name not in {"outcome", "outside", "pause"})


def payload_of(answer: Answer) -> dict[str, object]:
    """The payload that stores an answer."""
    return {name: getattr(answer, name) for name in _STORED}


def row_of(answer: Answer, recording: str) -> EndedRow:
    """An answer as a part of the row of a run; `recording` is the name of the recording if it is kept."""
    return {
        "outcome": answer.outcome,
        "message": answer.message,
        "recording": recording if answer.kept else None,
        "trace": answer.trace,
        "digest": answer.digest,
        "cpu_s": round(answer.cpu_s, 4),
        "simulation_s": round(answer.simulation_s, 4),
        "findings": len(answer.findings),
        "unjudged": answer.unjudged,
        "reached": answer.reached,
        **({"covered": answer.covered} if answer.covered else {}),
        "metrics": answer.metrics,
    }


def answer_of(outcome: str, payload: Mapping[str, object] | None) -> Answer | None:
    """The answer that a payload stores; `None` if it is none. Absent fields have their defaults."""
    said = payload or {}
    if not isinstance(said, Mapping) or not set(said) <= set(_STORED):
        return None
    try:
        return _adapter().validate_python({**said, "outcome": outcome})
    except ValidationError:
        return None


@cache
def _adapter() -> TypeAdapter[Answer]:
    return TypeAdapter(Answer)
