"""The types of congestion controllers in Python: events, the view of the sender, and answers.

    from tcpassay.controllers import Window

    class Aimd(Window):
        def grow(self, view, cwnd, acked): ...
        def reduce(self, view, cwnd, cause, flight): ...

or a class with `on(self, view, event)` of its own. docs/controllers-python.md describes the interface.
"""

from tcpassay._native import (
    Ack,
    Congestion,
    Control,
    ControllerError,
    Established,
    RecoveryExit,
    Resume,
    Sent,
    Timeout,
    View,
)
from tcpassay.controllers.window import Window

__all__ = [
    "Ack",
    "Congestion",
    "Control",
    "ControllerError",
    "Established",
    "RecoveryExit",
    "Resume",
    "Sent",
    "Timeout",
    "View",
    "Window",
]
