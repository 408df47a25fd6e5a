"""The size of the event log of a case, from above: from the rate of its links and its duration."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from tcpassay.plan import table
from tcpassay.plan.quantity import quantity

SEGMENT: Final = 1448
"""Bytes of data of a segment with timestamps on a path for 1,500 bytes."""
OF_SEGMENT: Final = 600
"""Bytes of the log for a segment: about six rows of 100 bytes (sent, received, read, acknowledged, window, timer)."""
_READ: Final = ("link.rate", "app.duration", "app.workload", "app.flow_size")


def settings(triples: Mapping[str, object]) -> tuple[str, ...]:
    """The arguments of `size` for a case."""
    return tuple(str(triples.get(name, table.parameters()[name].default)) for name in _READ)


def size(rate: str, duration: str, workload: str, flow_size: str) -> int:
    """The size of the log in bytes; 0 if it is not known."""
    of_link, length = quantity(rate), quantity(duration)
    if workload != "bulk" or flow_size != "endless" or of_link.kind != "a rate":
        return 0
    if not isinstance(of_link.amount, Fraction) or not isinstance(length.amount, Fraction):
        return 0
    seconds = length.amount / 10**9
    return int(of_link.amount * seconds / 8 / SEGMENT * OF_SEGMENT)
