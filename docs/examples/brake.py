"""Reno with a brake: if the queue is longer than half of the smallest RTT, the window shrinks by an eighth."""

from tcpassay.controllers import Window


class Brake(Window):
    def __init__(self, random):
        super().__init__(random)
        self.again_ns = 0  # a round trip after the last brake, when its effect shows

    def late(self, view):
        if view.min_rtt_ns is None:  # there was no sample yet
            return False
        return view.srtt_ns > view.min_rtt_ns * 3 // 2 and view.now_ns >= self.again_ns

    def leave_slow_start(self, view):
        return view.cwnd if self.late(view) else None

    def grow(self, view, cwnd, acked):
        if not self.late(view):
            return super().grow(view, cwnd, acked)
        self.again_ns = view.now_ns + view.srtt_ns
        return max(cwnd - cwnd // 8, 2 * view.mss)
