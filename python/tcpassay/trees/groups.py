"""Pairs of runs that differ, grouped by the kind of the first event that differs.

Two kernels of different series differ with every parameter at its default, so that no setting separates their changes.
The first event that differs shows which part of the stack acts first: a window, a retransmission, a time. Windows that
receivers advertise are compared apart, because a change of their size precedes most other differences and has no effect
where it does not limit a sender.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tcpassay.compare.separate import Separation, separate
from tcpassay.explain.moments import ACK, FIN, RST, SYN
from tcpassay.interface import EventKind, EventsColumn, Table
from tcpassay.recording import Recording, understood
from tcpassay.trees.pairs import TreePair

_SEGMENTS: Final = {
    EventKind.IN: "arrives",
    EventKind.OUT: "is sent",
    EventKind.RETRANSMIT: "is retransmitted",
}
_WINDOW: Final = EventsColumn.WINDOW_BYTES
_RANDOM: Final = EventsColumn.VALUE_NS
"""In rows of segments a timestamp (RFC 7323), which begins at a random number."""
_NAMES: Final = {
    "time_ns": "time",
    "why": "reason",
    "seq": "position",
    "ack": "acknowledged position",
    "len": "length",
    "value_ns": "value",
    "cwnd_bytes": "congestion window",
    "ssthresh_bytes": "slow start threshold",
    "flight_bytes": "bytes in flight",
    "srtt_ns": "smoothed round-trip time",
    "rto_ns": "retransmission timeout",
    "ce": "CE mark",
}
_TIME: Final = "time_ns"


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of a first difference: equal for pairs that differ in the same way."""

    text: str
    windows: bool
    """Whether the advertised windows differ before it, or instead of it."""

    @property
    def words(self) -> str:
        """In words."""
        return f"{self.text}{', after a difference of advertised windows' if self.windows else ''}"


@dataclass(frozen=True, slots=True)
class Group:
    """Pairs whose first differences are of one kind."""

    kind: Kind
    pairs: tuple[TreePair, ...]
    separation: Separation
    """The settings that separate these pairs from those of other groups."""

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {
            "kind": self.kind.text,
            "windows": self.kind.windows,
            "separation": self.separation.text,
            "pairs": [{"case": one.head["case"], "seed": one.seed} for one in self.pairs],
        }


def groups(kinds: Sequence[tuple[TreePair, Kind]], alike: Sequence[TreePair] = ()) -> list[Group]:
    """The groups of pairs, the largest first; `alike` are pairs without a difference."""
    among: dict[Kind, list[TreePair]] = {}
    for pair, kind in kinds:
        among.setdefault(kind, []).append(pair)
    made = []
    for kind, pairs in among.items():
        others = [*(one for one, other in kinds if other != kind), *alike]
        apart = separate([one.varied for one in pairs], [one.varied for one in others])
        made.append(Group(kind, tuple(pairs), apart))
    return sorted(made, key=lambda one: (-len(one.pairs), one.kind.text))


def kind_of(base: Recording, head: Recording) -> Kind | None:
    """The kind of the first difference of two runs; `None` if their event logs are identical.

    Raises `UserError` if an event log cannot be read.
    """
    one, other = (table_of(recording) for recording in (base, head))
    windows, row = first_rows(one, other)
    if row is None:
        return None if windows is None else Kind("only advertised windows differ", windows=True)
    here, there = (frame.row(row, named=True) if row < frame.height else None for frame in (one, other))
    return Kind(_words(here, there), windows is not None and windows < row)


def table_of(recording: Recording) -> pl.DataFrame:
    """The event log; a recording has only columns with values. Raises `UserError` if it cannot be read."""
    raw = recording.content(f"{Table.EVENTS}.parquet")
    with understood(recording.folder / f"{Table.EVENTS}.parquet"):
        return pl.read_parquet(raw)


def first_rows(base: pl.DataFrame, head: pl.DataFrame) -> tuple[int | None, int | None]:
    """The first row whose advertised window differs, and the first one that differs in anything else."""
    least = min(base.height, head.height)
    one, other = base[:least], head[:least]
    segment = one[EventsColumn.KIND].cast(pl.String).is_in([str(kind) for kind in _SEGMENTS]).to_numpy()
    unequal: npt.NDArray[np.bool_] = np.zeros(least, dtype=np.bool_)
    names = dict.fromkeys([*one.columns, *other.columns])
    for name in names:
        if name != _WINDOW:
            differs = _unequal(one, other, name)
            unequal |= differs & ~segment if name == _RANDOM else differs
    apart = _unequal(one, other, _WINDOW) if _WINDOW in names else np.zeros(0, dtype=np.bool_)
    windows = np.flatnonzero(apart)
    places = np.flatnonzero(unequal)
    row = int(places[0]) if len(places) else least if base.height != head.height else None
    return (int(windows[0]) if len(windows) else None), row


def _unequal(base: pl.DataFrame, head: pl.DataFrame, name: str) -> npt.NDArray[np.bool_]:
    one, other = (
        frame[name] if name in frame.columns else pl.Series(name, [None] * frame.height, pl.String)
        for frame in (base, head)
    )
    if one.dtype != other.dtype:
        one, other = one.cast(pl.String), other.cast(pl.String)
    made: npt.NDArray[np.bool_] = one.ne_missing(other).to_numpy()
    return made


Row = dict[str, int | str | bool | None]


def _words(base: Row | None, head: Row | None) -> str:
    """What differs in two rows."""
    before, after = (None if row is None else _event(row) for row in (base, head))
    if base is None or head is None or before != after:
        return (
            f"{before or 'no further event'} on the first kernel, {after or 'no further event'} on the second"
        )
    apart = [
        _NAMES.get(name, name)
        for name in base
        if base[name] != head.get(name)
        and name != _WINDOW
        and not (name == _RANDOM and base["kind"] in {str(kind) for kind in _SEGMENTS})
    ]
    # A later event has other numbers, too; the time is the difference.
    named = apart[:1] if apart[:1] == [_NAMES[_TIME]] else apart
    return f"{before}: {', '.join(named)}"


def _event(row: Row) -> str:
    """The kind of a row, without its numbers."""
    kind, why = str(row["kind"]), str(row["why"] or "")
    if kind not in {str(one) for one in _SEGMENTS}:
        return f"{kind} ({why})" if why else kind
    flags, length = int(row["flags"] or 0), int(row["len"] or 0)
    if flags & SYN:
        what = "SYN-ACK" if flags & ACK else "SYN"
    elif flags & RST:
        what = "RST"
    elif length:
        what = "data"
    else:
        what = "FIN" if flags & FIN else "ACK"
    return f"{what} {_SEGMENTS[EventKind(kind)]}"
