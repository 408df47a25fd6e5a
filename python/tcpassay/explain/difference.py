"""The first difference between the event logs of two runs of similar cases."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tcpassay.explain.lines import inner_text
from tcpassay.explain.moments import ACK_REASONS, End, Moment
from tcpassay.interface import EventKind
from tcpassay.judge.log import NUMBERS, LogFile
from tcpassay.judge.words import ms
from tcpassay.recording import Recording

_SHOWN: Final = {
    "seq": "position",
    "ack": "acknowledges",
    "len": "length",
    "value_ns": "value",
    "cwnd_bytes": "cwnd",
    "ssthresh_bytes": "ssthresh",
}


@dataclass(frozen=True, slots=True)
class Event:
    """A row of an event log that is described alone."""

    row: int
    time_ns: int
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The first rows of two logs that differ; one of them may be missing."""

    same: int
    """Number of identical rows before them."""
    here: Event | None
    there: Event | None


def first_difference(one: tuple[Recording, LogFile], other: tuple[Recording, LogFile]) -> Difference | None:
    """The first difference of two logs; `None` if they are identical."""
    kinds = one[1].kinds, other[1].kinds
    least = min(len(kinds[0]), len(kinds[1]))
    unequal = kinds[0][:least] != kinds[1][:least]
    for name in NUMBERS:
        unequal |= one[1].numbers(name)[:least] != other[1].numbers(name)[:least]
    places = np.flatnonzero(unequal)
    first = int(places[0]) if len(places) else least
    # Reasons and marks are compared up to there only: they are texts, and few.
    first = _by_rest(one[1], other[1], first)
    if first == least and len(kinds[0]) == len(kinds[1]):
        return None
    return Difference(first, _event(*one, first, len(kinds[0])), _event(*other, first, len(kinds[1])))


def _by_rest(one: LogFile, other: LogFile, first: int) -> int:
    step = 4096
    for low in range(0, first, step):
        rows = list(range(low, min(low + step, first)))
        pairs = zip(one.rows(rows), other.rows(rows), strict=True)
        for row, (here, there) in zip(rows, pairs, strict=True):
            if here != there:
                return row
    return first


def _event(recording: Recording, log: LogFile, row: int, count: int) -> Event | None:
    if row >= count:
        return None
    (one,) = log.rows([row])
    time, kind, why, said = one.time_ns, one.kind, one.why, one.values
    text = inner_text(Moment(row, time, End.SENDER, kind, why, said), 1)
    if kind == EventKind.ACK_NOW:
        text = f"ACK {said.get('ack')} is sent at once ({ACK_REASONS.get(why, why)})"
    if not text:
        shown = (f"{label} {said[name]}".strip() for name, label in _SHOWN.items() if name in said)
        text = " ".join(part for part in (kind, why, *shown, "CE" if "ce" in said else "") if part)
    where = recording.hosts[one.host]
    of = "" if one.flow is None else f" ({recording.flows[one.flow]['name']})"
    return Event(row, time, f"{ms(time)}, {where}{of}: {text}")
