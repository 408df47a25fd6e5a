"""Reno (RFC 5681) as a controller in Python: `stack.cc = "python:python/reno.py:Reno"`.

The same controller is `reno` in Rust (crates/cc/src/rules/reno.rs with the common part of all window rules), which the
BPF shim brings to Linux. docs/controllers-python.md compares the three.
"""

from __future__ import annotations

from tcpassay.controllers import View, Window


class Reno(Window):
    """One segment for each window of acknowledged bytes, half of the flight after a loss."""

    def grow(self, view: View, cwnd: int, acked: int) -> int:
        """Congestion avoidance (section 3.1)."""
        self.credit += acked
        if self.credit >= cwnd:
            self.credit = min(self.credit - cwnd, cwnd)
            cwnd += view.mss
        return cwnd

    def reduce(self, view: View, cwnd: int, cause: str, flight: int) -> int:  # noqa: ARG002 - for other rules
        """Equation 4; after marks a segment at least (RFC 9438 section 4.6)."""
        return max((flight + 1) // 2, view.mss if cause == "ecn" else 2 * view.mss)
