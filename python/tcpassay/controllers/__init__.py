"""The types of congestion controllers in Python: events, the view of the sender, and answers.

    from tcpassay.controllers import Ack, Congestion, Control, View

    class Aimd:
        def __init__(self, random): ...
        def on(self, view, event): ...

docs/controllers-python.md describes the interface.
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
]
