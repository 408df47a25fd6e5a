"""The reasons of events (`EventsColumn.WHY`) as data. The native module reads the text: it also writes it."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tcpassay import _native
from tcpassay.interface import CongestionState, TcpState


@dataclass(frozen=True, slots=True)
class StateChange:
    """The reason of an event `EventKind.STATE`."""

    before: TcpState
    after: TcpState
    aborted: str | None = None
    """Why the connection ended without a proper close; then neither state is known."""

    @property
    def ends(self) -> bool:
        """Whether this end has nothing more to send or to wait for."""
        return self.aborted is not None or self.after in {TcpState.CLOSED, TcpState.TIME_WAIT}


@dataclass(frozen=True, slots=True)
class CongestionChange:
    """The reason of an event `EventKind.CONGESTION`."""

    before: CongestionState
    after: CongestionState
    cause: str
    """In words."""
    undone: bool = False
    """The change undid a reduction of the window that had been unnecessary."""
    window_known: bool = True
    """The window after the change is in the log."""

    @property
    def enters_recovery(self) -> bool:
        """Whether a fast recovery begins."""
        return self.after is CongestionState.RECOVERY


# A log repeats a few dozen reasons.
_REASONS: Final = 4096


@lru_cache(_REASONS)
def state_change(why: str) -> StateChange:
    """Reads the reason of an event `state`; the states of an unreadable reason are `UNKNOWN`."""
    before, after, aborted = _native.state_change(why) or (None, None, None)
    unknown = TcpState.UNKNOWN
    return StateChange(TcpState(before or unknown), TcpState(after or unknown), aborted)


@lru_cache(_REASONS)
def congestion_change(why: str) -> CongestionChange:
    """Reads the reason of an event `congestion`; an unreadable text has unknown states and becomes the cause."""
    unknown = CongestionState.UNKNOWN
    before, after, cause, undone, known = _native.congestion_change(why) or (
        unknown,
        unknown,
        why,
        False,
        True,
    )
    return CongestionChange(CongestionState(before), CongestionState(after), cause, undone, known)
