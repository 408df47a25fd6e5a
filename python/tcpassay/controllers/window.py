"""The common part of window-based controllers: slow start, recovery, undo, timeouts, idle.

It is the part that `Windowed` (crates/cc/src/windowed.rs) is for controllers in Rust with `stack.abc = "all"` and
`stack.hystart = "off"`: RFC 5681 section 3.1 and 4.1, RFC 3168 section 6.1.2, RFC 7661 section 1, RFC 3465.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from tcpassay._native import Ack, Congestion, Control, RecoveryExit, Resume, Timeout, View
from tcpassay.controllers.names import methods, nearest, used

if TYPE_CHECKING:
    from random import Random

INFINITE: Final = (1 << 64) - 1
"""The slow-start threshold before the first congestion."""


_METHODS: Final = ("grow", "reduce", "leave_slow_start", "observe", "reset")


class Window:
    """A window-based controller, Reno unless a class overrides `grow` or `reduce`.

    All windows are bytes.
    """

    def __init_subclass__(cls) -> None:
        """Refuses a method that overrides nothing because of its name."""
        super().__init_subclass__()
        for name in methods(cls):
            meant = nearest(name, _METHODS)
            if meant is not None and meant not in vars(cls) and name not in used(cls):
                raise TypeError(
                    f"`{name}` of {cls.__name__} overrides nothing and is not called; did you mean `{meant}`?"
                )

    def __init__(self, random: Random) -> None:
        """Creates the controller with the random numbers of its connection."""
        self.random = random
        self.credit = 0
        """Bytes acknowledged towards the next segment, for `grow`; 0 after a reduction, a recovery and idle."""
        self._phase: Literal["open", "reduced", "left", "collapsed", "rebuilt"] = "open"
        # At the end of the reduction: the window, and whether marks are the cause.
        self._window = 0
        self._marks = False
        # Before the last reduction, for an undo: window, threshold, credit.
        self._before: tuple[int, int, int] | None = None
        # The largest flight of this round trip and of the one before.
        self._round = 0
        self._peaks = (0, 0)

    # What a class overrides.

    def grow(self, view: View, cwnd: int, acked: int) -> int:
        """The window after `acked` more bytes in congestion avoidance; by default a segment for each window.

        It is called only if the window limited the sender. `cwnd` is the window, or the threshold if slow start ends
        with this ACK. A smaller window is allowed, and lowers the threshold; in the recovery from a timeout it is
        ignored.
        """
        self.credit += acked
        if self.credit >= cwnd:
            self.credit = min(self.credit - cwnd, cwnd)
            cwnd += view.mss
        return cwnd

    def reduce(self, view: View, cwnd: int, cause: str, flight: int) -> int:  # noqa: ARG002 - for other classes
        """The window after a loss, a timeout (`cause` is `loss`) or marks (`ecn`); by default half of the flight.

        `flight` is at most `cwnd`. The result is limited to `cwnd`, and from below to a segment; after a loss the
        default is two (RFC 5681, equation 4).
        """
        return max((flight + 1) // 2, view.mss if cause == "ecn" else 2 * view.mss)

    def leave_slow_start(self, view: View) -> int | None:  # noqa: ARG002 - for other classes
        """The window with which slow start ends now, which becomes the threshold; `None` continues slow start."""
        return None

    def observe(self, view: View, ack: Ack) -> None:
        """Called for each ACK before anything else, also in slow start and recovery: the place for measurements."""

    def reset(self, view: View, why: str) -> None:
        """Called after a `timeout`, after `idle`, and when a recovery has ended (`recovered`)."""

    # What it does with them.

    def on(self, view: View, event: object) -> Control | None:
        """Processes an event."""
        cwnd, ssthresh = view.cwnd, INFINITE if view.ssthresh is None else view.ssthresh
        if isinstance(event, Ack):
            cwnd, ssthresh = self._ack(view, event, cwnd, ssthresh)
        elif isinstance(event, Congestion):
            cwnd, ssthresh = self._congestion(view, event, cwnd, ssthresh)
        elif isinstance(event, RecoveryExit):
            cwnd, ssthresh = self._exit(view, event, cwnd, ssthresh)
        elif isinstance(event, Timeout):
            cwnd, ssthresh = self._timeout(view, event, cwnd, ssthresh)
        elif isinstance(event, Resume):
            self.credit = 0
            self.reset(view, "idle")
            window = max(event.restart, view.mss)
            if window < cwnd:
                cwnd, ssthresh = window, max(ssthresh, cwnd - cwnd // 4)
        else:
            return None
        return Control(cwnd, ssthresh)

    def _window_of(self, method: str, value: int) -> int:
        """The result of a method. Raises `TypeError` or `ValueError` with the method, which the traceback lacks."""
        what = f"`{method}` of {type(self).__name__} returned {value!r}"
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"{what}; allowed is a whole number of bytes, as of `int(...)`")
        if value < 0:
            raise ValueError(f"{what}; a window is not negative")
        return value

    def _ack(self, view: View, ack: Ack, cwnd: int, ssthresh: int) -> tuple[int, int]:
        self.observe(view, ack)
        flight = view.flight + ack.delivered + ack.lost
        if ack.round != self._round:
            self._round, self._peaks = ack.round, (flight, self._peaks[0])
        else:
            self._peaks = (max(flight, self._peaks[0]), self._peaks[1])
        counted = ack.delivered if ack.reordered or ack.acked else 0
        # The ACK that ends a recovery from loss does not count.
        unmoved = self._phase in {"left", "reduced"} or (self._phase == "open" and ack.marked)
        if self._phase in {"left", "rebuilt"}:
            self._phase = "open"
        if unmoved:
            return cwnd, ssthresh
        full = view.limited == "cwnd"
        if cwnd >= ssthresh:
            return self._avoid(view, counted, cwnd, ssthresh) if full and counted else (cwnd, ssthresh)
        if self._phase == "open" and (left := self.leave_slow_start(view)) is not None:
            window = max(self._window_of("leave_slow_start", left), view.mss)
            return window, min(ssthresh, window)
        if not full and cwnd >= 2 * max(self._peaks):
            return cwnd, ssthresh
        beyond = cwnd + counted - ssthresh
        if beyond <= 0:
            return cwnd + counted, ssthresh
        return self._avoid(view, beyond, ssthresh, ssthresh) if full else (ssthresh, ssthresh)

    def _avoid(self, view: View, acked: int, cwnd: int, ssthresh: int) -> tuple[int, int]:
        least = cwnd if self._phase == "collapsed" else view.mss
        cwnd = max(self._window_of("grow", self.grow(view, cwnd, acked)), least)
        return cwnd, min(ssthresh, cwnd)

    def _reduced(self, view: View, cwnd: int, cause: str, flight: int) -> int:
        # The flight includes data that SACK reported, for which more was sent beyond the window.
        window = self._window_of("reduce", self.reduce(view, cwnd, cause, min(flight, cwnd)))
        self.credit = 0
        return max(min(window, max(cwnd, 2 * view.mss)), view.mss)

    def _congestion(self, view: View, event: Congestion, cwnd: int, ssthresh: int) -> tuple[int, int]:
        if self._phase in {"reduced", "collapsed"}:
            return cwnd, ssthresh  # this window was reduced before
        self._before = (cwnd, ssthresh, self.credit)
        self._marks = event.cause == "ecn"
        self._window = self._reduced(view, cwnd, event.cause, event.flight)
        if self._marks:
            self._window = min(self._window, cwnd)
        self._phase = "reduced"
        return self._window, max(self._window, 2 * view.mss)

    def _timeout(self, view: View, event: Timeout, cwnd: int, ssthresh: int) -> tuple[int, int]:
        if event.again and self._phase == "collapsed":
            return view.mss, ssthresh
        if self._phase == "reduced" and self._before is not None:
            # The losses of this window are more severe than assumed: again from the window before the recovery.
            was = self._before[0]
            if self._marks:
                self._before = (cwnd, ssthresh, self.credit)
            least = min(self._reduced(view, was, "loss", event.flight), ssthresh)
        else:
            self._before = (cwnd, ssthresh, self.credit)
            least = self._reduced(view, cwnd, "loss", event.flight)
        self._phase = "collapsed"
        self.reset(view, "timeout")
        return view.mss, max(least, 2 * view.mss)

    def _exit(self, view: View, event: RecoveryExit, cwnd: int, ssthresh: int) -> tuple[int, int]:
        phase, self._phase = self._phase, "open"
        if event.spurious:
            if self._before is None:
                return cwnd, ssthresh
            was, limit, self.credit = self._before
            self._before = None
            return max(cwnd, was), max(ssthresh, limit)
        self.credit = 0
        self.reset(view, "recovered")
        window, marks = (self._window, self._marks) if phase == "reduced" else (cwnd, False)
        bound = INFINITE if event.exit is None else max(event.exit, view.mss)
        if phase == "collapsed" and bound >= window:
            self._phase = "rebuilt"
        elif not marks or bound < window:
            self._phase = "left"
        return min(window, bound), ssthresh
