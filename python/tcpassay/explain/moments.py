"""What happened on one connection, end by end, as moments with plain words.

The sender of the data is the left end, their receiver the right one. Positions count from 1, the first byte of a
stream.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from tcpassay.interface import AckReason, EventKind, EventsColumn, Timer
from tcpassay.judge.log import LogFile
from tcpassay.recording import Recording

if TYPE_CHECKING:
    from tcpassay.judge.log import Ints

FIN, SYN, RST, PSH, ACK, ECE, CWR = 1, 2, 4, 8, 16, 64, 128

_FLAGS: Final = ((SYN, "SYN"), (FIN, "FIN"), (RST, "RST"), (ECE, "ECE"), (CWR, "CWR"))

ACK_REASONS: Final[Mapping[str, str]] = {
    AckReason.EVERY_N: "two full-sized segments are unacknowledged",
    AckReason.QUICK: "quick ACK mode",
    AckReason.OUT_OF_ORDER: "the segment is out of order, or fills a gap",
    AckReason.CE_CHANGE: "the CE mark changed",
    AckReason.TIMER: "the delayed-ACK timer fired",
    AckReason.WINDOW_UPDATE: "the receive window opened",
    AckReason.PIGGYBACK: "piggybacked on data",
    AckReason.FIN: "a FIN arrived",
    AckReason.ANSWER: "the segment must be answered",
    AckReason.DELAY: "it may be delayed",
}
"""Descriptions of the reasons of decisions about ACKs."""

TIMERS: Final[Mapping[str, str]] = {
    Timer.RTO: "retransmission timer",
    Timer.TLP: "tail-loss-probe timer",
    Timer.RACK_REORDER: "RACK reordering timer",
    Timer.PERSIST: "persist timer",
    Timer.DELAYED_ACK: "delayed-ACK timer",
    Timer.KEEPALIVE: "keepalive timer",
    Timer.TIME_WAIT: "TIME-WAIT timer",
    Timer.PACING: "pacing timer",
    Timer.HANDSHAKE: "handshake timer",
    Timer.CORK: "cork timer",
}
"""Names of timers."""

SEGMENTS: Final = frozenset({EventKind.IN, EventKind.OUT, EventKind.RETRANSMIT})


class End(IntEnum):
    """An end of the connection."""

    SENDER = 0
    """Sends the data that the finding is about."""
    RECEIVER = 1


@dataclass(frozen=True, slots=True)
class Moment:
    """A row of the event log."""

    row: int
    """Index of the row in `events.parquet`."""
    time_ns: int
    end: End
    kind: str
    why: str
    values: Mapping[str, int | bool] = field(default_factory=dict)
    """The other columns that have a value."""

    def number(self, name: str) -> int | None:
        """A column of numbers."""
        value = self.values.get(name)
        return None if value is None else int(value)

    @property
    def segment(self) -> bool:
        """Whether a segment left or arrived."""
        return self.kind in SEGMENTS

    @property
    def sent(self) -> bool:
        """Whether a segment left."""
        return self.kind in {EventKind.OUT, EventKind.RETRANSMIT}

    @property
    def flags(self) -> int:
        """Bits of the TCP header."""
        return self.number("flags") or 0

    @property
    def start(self) -> int:
        """The first position of a segment."""
        return self.number("seq") or 0

    @property
    def stop(self) -> int:
        """The position after the last byte of a segment; a FIN takes one."""
        return self.start + (self.number("len") or 0) + (1 if self.flags & FIN else 0)

    @property
    def data(self) -> bool:
        """Whether a segment carries data or a FIN."""
        return self.segment and self.stop > self.start and not self.flags & SYN

    def same(self) -> tuple[object, ...]:
        """A key that is equal for identical moments of two runs."""
        return (self.time_ns, self.end, self.kind, self.why, tuple(sorted(self.values.items())))


@dataclass(frozen=True, slots=True)
class Connection:
    """The moments of one connection of a run."""

    names: tuple[str, str]
    """The hosts of the sender and of the receiver."""
    flow: str
    moments: tuple[Moment, ...]
    """In the order of time."""
    end_ns: int
    """End of the run in nanoseconds."""
    timers_known: bool = True
    """Whether the log has timers; the log of a kernel may lack them."""

    def between(self, start_ns: int, end_ns: int) -> list[Moment]:
        """The moments from `start_ns` to `end_ns`, both included."""
        return [one for one in self.moments if start_ns <= one.time_ns <= end_ns]


def connection(recording: Recording, log: LogFile, flow: str, *, timers_known: bool = True) -> Connection:
    """The connection whose data are those of `flow`. Raises `KeyError` if the recording has no such flow."""
    names = [str(one["name"]) for one in recording.flows]
    if flow not in names:
        raise KeyError(flow)
    data = names.index(flow)
    number = recording.flows[data]["connection"]
    pair = [place for place, one in enumerate(recording.flows) if one["connection"] == number]
    flows = log.numbers(EventsColumn.FLOW)
    wanted = [int(row) for row in _rows(flows, pair)]
    moments = []
    for row, one in zip(wanted, log.rows(wanted), strict=True):
        end = End.SENDER if one.flow == data else End.RECEIVER
        moments.append(Moment(row, one.time_ns, end, one.kind, one.why, one.values))
    moments.sort(key=lambda one: (one.time_ns, one.row))
    hosts = recording.hosts
    return Connection(
        (hosts[recording.flows[data]["from"]], hosts[recording.flows[data]["to"]]),
        flow,
        tuple(moments),
        recording.duration_ns,
        timers_known,
    )


def _rows(flows: "Ints", pair: list[int]) -> Iterable[int]:
    import numpy as np  # noqa: PLC0415 - start-up time

    found: list[int] = np.flatnonzero(np.isin(flows, pair)).tolist()
    return found


def flag_words(moment: Moment) -> str:
    """The displayed flags of a segment, and its CE mark."""
    said = [name for bit, name in _FLAGS if moment.flags & bit]
    if moment.flags & SYN and moment.flags & ACK:
        said[0] = "SYN-ACK"
    if moment.values.get("ce"):
        said.append("CE")
    return " ".join(said)
