"""Pairs of runs that differ, grouped by the kind of the first event that differs.

Two kernels of different series differ with every parameter at its default, so that no setting separates their changes.
The first event that differs shows which part of the stack acts first: a window, a retransmission, a time. What rarely
has an effect is compared apart: windows that receivers advertise, which matter where they limit a sender; PSH flags,
which follow from these windows; and the times at which writes of applications fit into a send buffer.
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
from tcpassay.judge.words import ms
from tcpassay.recording import Recording, understood
from tcpassay.trees.causes import TreeCause
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
_PSH: Final = 8
_WINDOWS: Final = "advertised windows"
_PUSHES: Final = "PSH flags"
_WRITES: Final = "writes of applications"


Row = dict[str, int | str | bool | None]


@dataclass(frozen=True, slots=True)
class Rows:
    """The first difference of two event logs."""

    quiet: tuple[str, ...]
    """What is compared apart and differs before it, or instead of it."""
    base: Row | None
    """The first row that differs; `None` if the log has ended, or if nothing else differs."""
    head: Row | None

    @property
    def only_quiet(self) -> bool:
        """Whether nothing else differs."""
        return self.base is None and self.head is None


@dataclass(frozen=True, slots=True)
class Group:
    """Pairs whose first differences are of one kind."""

    kind: str
    """In words; equal for pairs that differ in the same way."""
    quiet: tuple[str, ...]
    """What differs before, or instead of it, in some of the pairs."""
    pairs: tuple[TreePair, ...]
    separation: Separation
    """The settings that separate these pairs from those of other groups."""
    smallest: TreeCause | None = None
    """The smallest settings of one of the pairs with a first difference of this kind; `None` if not searched."""

    @property
    def example(self) -> TreePair:
        """The pair with the fewest settings."""
        return min(self.pairs, key=lambda one: len(one.head["triples"]))

    @property
    def words(self) -> str:
        """The kind with what differs before."""
        if not self.quiet:
            return self.kind
        named = ", ".join(self.quiet)
        return f"{self.kind}: {named}" if self.kind == ONLY_QUIET else f"{self.kind} (before it: {named})"

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {
            "kind": self.kind,
            "before": list(self.quiet),
            "separation": self.separation.text,
            "smallest": None if self.smallest is None else self.smallest.as_json(),
            "pairs": [{"case": one.head["case"], "seed": one.seed} for one in self.pairs],
        }


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of a first difference."""

    text: str
    quiet: tuple[str, ...] = ()


ONLY_QUIET: Final = "no decision of the stack"
"""The kind of pairs in which only what is compared apart differs."""


def groups(kinds: Sequence[tuple[TreePair, Kind]], alike: Sequence[TreePair] = ()) -> list[Group]:
    """The groups of pairs, the largest first; `alike` are pairs without a difference."""
    among: dict[str, list[tuple[TreePair, Kind]]] = {}
    for pair, kind in kinds:
        among.setdefault(kind.text, []).append((pair, kind))
    made = []
    for text, members in among.items():
        others = [*(one for one, other in kinds if other.text != text), *alike]
        apart = separate([one.varied for one, _ in members], [one.varied for one in others])
        quiet = tuple(sorted({name for _, kind in members for name in kind.quiet}))
        made.append(Group(text, quiet, tuple(one for one, _ in members), apart))
    return sorted(made, key=lambda one: (-len(one.pairs), one.kind))


def kind_of(base: Recording, head: Recording) -> Kind | None:
    """The kind of the first difference of two runs; `None` if their event logs are identical.

    Raises `UserError` if an event log cannot be read.
    """
    found = difference(base, head)
    if found is None:
        return None
    return Kind(ONLY_QUIET if found.only_quiet else _words(found.base, found.head), found.quiet)


def difference(base: Recording, head: Recording) -> Rows | None:
    """The first difference of two runs. Raises `UserError` if an event log cannot be read."""
    return first_rows(_table(base), _table(head))


def _table(recording: Recording) -> pl.DataFrame:
    """The event log; a recording has only columns with values."""
    raw = recording.content(f"{Table.EVENTS}.parquet")
    with understood(recording.folder / f"{Table.EVENTS}.parquet"):
        return pl.read_parquet(raw)


def first_rows(base: pl.DataFrame, head: pl.DataFrame) -> Rows | None:
    """The first difference of two event logs; `None` if they are identical."""
    base, head = (frame.filter(~_unnamed()) for frame in (base, head))
    writes = [frame.filter(_kind() == EventKind.APP) for frame in (base, head)]
    one, other = (frame.filter(_kind() != EventKind.APP) for frame in (base, head))
    least = min(one.height, other.height)
    both = one[:least], other[:least]
    segment = both[0].select(_kind().is_in([str(kind) for kind in _SEGMENTS])).to_series().to_numpy()
    unequal: npt.NDArray[np.bool_] = np.zeros(least, dtype=np.bool_)
    for name in dict.fromkeys([*one.columns, *other.columns]):
        if name == _RANDOM:
            unequal |= _unequal(*both, name) & ~segment
        elif name == EventsColumn.FLAGS:
            unequal |= _unequal(_without_push(both[0]), _without_push(both[1]), name)
        elif name != _WINDOW:
            unequal |= _unequal(*both, name)
    places = np.flatnonzero(unequal)
    row = int(places[0]) if len(places) else least
    quiet = []
    for name, column in ((_WINDOWS, _WINDOW), (_PUSHES, EventsColumn.FLAGS)):
        if _unequal(*both, column)[:row].any():
            quiet.append(name)
    if row == least and one.height == other.height:
        quiet += [] if writes[0].equals(writes[1], null_equal=True) else [_WRITES]
        return Rows(tuple(quiet), None, None) if quiet else None
    rows = [frame.row(row, named=True) if row < frame.height else None for frame in (one, other)]
    until = min(int(found[_TIME]) for found in rows if found is not None)
    before = [frame.filter(pl.col(_TIME) < until) for frame in writes]
    quiet += [] if before[0].equals(before[1], null_equal=True) else [_WRITES]
    return Rows(tuple(quiet), rows[0], rows[1])


def _kind() -> pl.Expr:
    return pl.col(EventsColumn.KIND).cast(pl.String)


def _unnamed() -> pl.Expr:
    """Whether a row is the first state of a connection that is accepted.

    Before a release between 6.12 and 7.3 the kernel reports it when the socket has no ports yet, so that it is not
    known to which connection it belongs.
    """
    why = pl.col(EventsColumn.WHY).cast(pl.String)
    return ((_kind() == EventKind.STATE) & (why == "Listen->SynReceived")).fill_null(value=False)


def _without_push(frame: pl.DataFrame) -> pl.DataFrame:
    name = EventsColumn.FLAGS
    return frame.with_columns(pl.col(name).cast(pl.Int64) & ~_PSH) if name in frame.columns else frame


def _unequal(base: pl.DataFrame, head: pl.DataFrame, name: str) -> npt.NDArray[np.bool_]:
    one, other = (
        frame[name] if name in frame.columns else pl.Series(name, [None] * frame.height, pl.String)
        for frame in (base, head)
    )
    if one.dtype != other.dtype:
        one, other = one.cast(pl.String), other.cast(pl.String)
    made: npt.NDArray[np.bool_] = one.ne_missing(other).to_numpy()
    return made


def _words(base: Row | None, head: Row | None) -> str:
    """What differs in two rows."""
    before, after = (None if row is None else _event(row) for row in (base, head))
    if base is None or head is None or before != after:
        return f"{before or 'no further event'} on base, {after or 'no further event'} on head"
    apart = [_NAMES.get(name, name) for name in base if _differs(base, head, name)]
    # A later event has other numbers, too; the time is the difference.
    named = apart[:1] if apart[:1] == [_NAMES[_TIME]] else apart
    return f"{before}: {', '.join(named)}"


def _differs(base: Row, head: Row, name: str) -> bool:
    if name == _WINDOW or (name == _RANDOM and base["kind"] in {str(kind) for kind in _SEGMENTS}):
        return False
    if name == EventsColumn.FLAGS:
        return (int(base[name] or 0) ^ int(head[name] or 0)) & ~_PSH != 0
    return base[name] != head.get(name)


def row_words(row: Row | None, hosts: Sequence[str]) -> str:
    """A row with its time, host and numbers."""
    if row is None:
        return "no further event"
    said = [
        f"{label} {row[name]}"
        for name, label in _NAMES.items()
        if name not in {_TIME, "why", "ce"}
        and row.get(name) is not None
        and not (name == _RANDOM and row["kind"] in {str(kind) for kind in _SEGMENTS})
    ]
    where = f"{ms(int(row[_TIME] or 0))}, {hosts[int(row['host'] or 0)]}"
    return f"{where}: {', '.join([_event(row), *said])}"


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
