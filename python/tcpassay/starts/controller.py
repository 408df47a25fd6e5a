"""A window-based congestion controller; docs/controllers-python.md describes the class Window and what it calls."""

from tcpassay.controllers import View, Window


class Mine(Window):
    """Adds two segments in each round trip, and keeps seven tenths of the window after a loss."""

    def grow(self, view: View, cwnd: int, acked: int) -> int:
        """The window after `acked` more bytes in congestion avoidance."""
        self.credit += 2 * acked
        while self.credit >= cwnd:
            self.credit -= cwnd
            cwnd += view.mss
        return cwnd

    def reduce(self, view: View, cwnd: int, cause: str, flight: int) -> int:
        """The window after a loss (`cause` is "loss") or marks ("ecn")."""
        return max(flight * 7 // 10, 2 * view.mss)
