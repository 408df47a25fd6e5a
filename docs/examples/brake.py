"""AIMD with a brake: if the queue is longer than half of the smallest RTT, the window shrinks by an eighth."""

from tcpassay.controllers import Ack, Congestion, Control, Timeout


class Brake:
    def __init__(self, random):
        self.credit = 0  # bytes acknowledged towards the next segment
        self.round = 0  # the round trip of the last brake

    def on(self, view, event):
        if isinstance(event, Congestion):
            half = max(event.flight // 2, 2 * view.mss)
            return Control(half, ssthresh=half)
        if isinstance(event, Timeout):
            return Control(view.mss, ssthresh=max(event.flight // 2, 2 * view.mss))
        if isinstance(event, Ack) and view.limited == "cwnd":
            return self.ack(view, event)
        return None  # nothing changes

    def ack(self, view, ack):
        if view.min_rtt_ns and view.srtt_ns > view.min_rtt_ns * 3 // 2 and ack.round > self.round:
            self.round = ack.round
            window = max(view.cwnd - view.cwnd // 8, 2 * view.mss)
            return Control(window, ssthresh=window)
        if view.ssthresh is None or view.cwnd < view.ssthresh:
            return Control(view.cwnd + ack.delivered)
        self.credit += ack.delivered
        if self.credit < view.cwnd:
            return None
        self.credit -= view.cwnd
        return Control(view.cwnd + view.mss)
