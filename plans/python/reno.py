"""Reno (RFC 5681) as a controller in Python: `stack.cc = "python:python/reno.py:Reno"`.

The same controller is `reno` in Rust (crates/cc/src/rules/reno.rs with the common part of all window rules), which the
BPF shim brings to Linux. docs/controllers-python.md compares the three.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcpassay.controllers import Ack, Congestion, Control, RecoveryExit, Resume, Timeout, View

if TYPE_CHECKING:
    from random import Random

INFINITE = (1 << 64) - 1


class Reno:
    """Slow start, one segment for each window, half of the flight after a loss."""

    def __init__(self, random: Random) -> None:
        """Creates the controller with the random numbers of its connection."""
        self.random = random
        self.phase = "open"
        # At the end of the reduction: the window, and whether marks are the cause.
        self.window = 0
        self.marks = False
        # Before the last reduction, for an undo: window, threshold, credit.
        self.before: tuple[int, int, int] | None = None
        # Bytes acknowledged towards the next segment.
        self.credit = 0
        # The largest flight of this round trip and of the one before.
        self.round = 0
        self.peaks = (0, 0)

    def on(self, view: View, event: object) -> Control | None:
        """Processes an event."""
        cwnd, ssthresh = view.cwnd, view.ssthresh if view.ssthresh is not None else INFINITE
        if isinstance(event, Ack):
            cwnd, ssthresh = self.ack(view, event, cwnd, ssthresh)
        elif isinstance(event, Congestion):
            cwnd, ssthresh = self.congestion(view, event, cwnd, ssthresh)
        elif isinstance(event, RecoveryExit):
            cwnd, ssthresh = self.exit(view, event, cwnd, ssthresh)
        elif isinstance(event, Timeout):
            cwnd, ssthresh = self.timeout(view, event, cwnd, ssthresh)
        elif isinstance(event, Resume):
            self.credit = 0
            window = max(event.restart, view.mss)
            if window < cwnd:
                cwnd, ssthresh = window, max(ssthresh, cwnd - cwnd // 4)
        else:
            return None
        return Control(cwnd, ssthresh)

    def ack(self, view: View, ack: Ack, cwnd: int, ssthresh: int) -> tuple[int, int]:
        """Slow start and congestion avoidance (section 3.1)."""
        flight = view.flight + ack.delivered + ack.lost
        if ack.round != self.round:
            self.round, self.peaks = ack.round, (flight, self.peaks[0])
        else:
            self.peaks = (max(flight, self.peaks[0]), self.peaks[1])
        counted = ack.delivered if ack.reordered or ack.acked else 0
        if self.phase == "left":
            # The ACK that ends a recovery does not count.
            self.phase = "open"
            counted = 0
        elif self.phase == "rebuilt":
            self.phase = "open"
        elif self.phase == "reduced" or (self.phase == "open" and ack.marked):
            counted = 0
        if counted == 0:
            return cwnd, ssthresh
        full = view.limited == "cwnd"
        if cwnd >= ssthresh:
            return self.avoid(view, counted, cwnd, ssthresh) if full else (cwnd, ssthresh)
        if not full and cwnd >= 2 * max(self.peaks):
            return cwnd, ssthresh
        beyond = cwnd + counted - ssthresh
        if beyond <= 0:
            return cwnd + counted, ssthresh
        return self.avoid(view, beyond, ssthresh, ssthresh) if full else (ssthresh, ssthresh)

    def avoid(self, view: View, acked: int, cwnd: int, ssthresh: int) -> tuple[int, int]:
        """A segment for each window of acknowledged bytes."""
        self.credit += acked
        if self.credit >= cwnd:
            self.credit = min(self.credit - cwnd, cwnd)
            cwnd += view.mss
        return cwnd, min(ssthresh, cwnd)

    def halved(self, view: View, flight: int, *, marks: bool, cwnd: int) -> int:
        """Half of the flight (equation 4); after marks a segment at least."""
        self.credit = 0
        half = max((min(flight, cwnd) + 1) // 2, view.mss if marks else 2 * view.mss)
        return max(min(half, max(cwnd, 2 * view.mss)), view.mss)

    def congestion(self, view: View, event: Congestion, cwnd: int, ssthresh: int) -> tuple[int, int]:
        """A reduction, once in a window."""
        if self.phase in {"reduced", "collapsed"}:
            return cwnd, ssthresh
        self.before = (cwnd, ssthresh, self.credit)
        self.marks = event.cause == "ecn"
        self.window = self.halved(view, event.flight, marks=self.marks, cwnd=cwnd)
        if self.marks:
            self.window = min(self.window, cwnd)
        self.phase = "reduced"
        return self.window, max(self.window, 2 * view.mss)

    def timeout(self, view: View, event: Timeout, cwnd: int, ssthresh: int) -> tuple[int, int]:
        """One segment."""
        if event.again and self.phase == "collapsed":
            return view.mss, ssthresh
        if self.phase == "reduced" and self.before is not None:
            was = self.before[0]
            if self.marks:
                self.before = (cwnd, ssthresh, self.credit)
            least = min(self.halved(view, event.flight, marks=False, cwnd=was), ssthresh)
        else:
            self.before = (cwnd, ssthresh, self.credit)
            least = self.halved(view, event.flight, marks=False, cwnd=cwnd)
        self.phase = "collapsed"
        return view.mss, max(least, 2 * view.mss)

    def exit(self, view: View, event: RecoveryExit, cwnd: int, ssthresh: int) -> tuple[int, int]:
        """The window of the reduction, or, if it was not needed, of before."""
        phase, self.phase = self.phase, "open"
        if event.spurious:
            if self.before is None:
                return cwnd, ssthresh
            was, limit, self.credit = self.before
            self.before = None
            return max(cwnd, was), max(ssthresh, limit)
        self.credit = 0
        window, marks = (self.window, self.marks) if phase == "reduced" else (cwnd, False)
        bound = INFINITE if event.exit is None else max(event.exit, view.mss)
        if phase == "collapsed" and bound >= window:
            self.phase = "rebuilt"
        elif not marks or bound < window:
            self.phase = "left"
        return min(window, bound), ssthresh
