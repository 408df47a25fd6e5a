"""A note about cases whose event log may not fit into the memory that a run may have.

On the model the log is in memory until the run has ended. Its size follows from the number of segments, and that from
the rate of the links and the duration, if the application always has data and nothing else limits the connection. It is
therefore a limit from above; the memory that other data needs is not counted.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from tcpassay.plan import table
from tcpassay.plan.expand import Case
from tcpassay.plan.model import PlanFile
from tcpassay.plan.quantity import quantity

SEGMENT: Final = 1448
"""Bytes of data of a segment with timestamps on a path for 1,500 bytes."""
OF_SEGMENT: Final = 600
"""Bytes of the log for a segment: about six rows of 100 bytes (sent, received, read, acknowledged, window, timer)."""
_READ: Final = ("link.rate", "app.duration", "app.workload", "app.flow_size")


def notes(spec: PlanFile, cases: Iterable[Case]) -> list[str]:
    """A note if the event log of cases may need more memory than `limits.case_memory`."""
    if not spec.collect.events and spec.oracles in (False, []):
        return []
    limit = quantity(spec.limits.case_memory).amount
    known: dict[tuple[str, ...], int] = {}
    large: list[tuple[int, Case]] = []
    total = 0
    for case in cases:
        total += 1
        if case.substrate != "model" or case.script is not None or case.expect != "done":
            continue
        said = tuple(str(case.triples.get(name, table.parameters()[name].default)) for name in _READ)
        if said not in known:
            known[said] = _size(*said)
        if isinstance(limit, Fraction) and known[said] > limit:
            large.append((known[said], case))
    if not large:
        return []
    size, case = max(large, key=lambda one: one[0])
    rate, duration = (case.triples.get(name, table.parameters()[name].default) for name in _READ[:2])
    message = (
        f"the event logs of {len(large)} of {total} cases may need more than `limits.case_memory` = "
        f"`{spec.limits.case_memory}`: that of case {case.id} up to about {size / 1e9:.3g} GB ({rate} for {duration}, "
        f"{OF_SEGMENT} bytes for a segment); raise the limit or shorten the run, or run without logs (`events = false` "
        "in [collect] and `oracles = false`)"
    )
    return [message]


def _size(rate: str, duration: str, workload: str, flow_size: str) -> int:
    """The size of the log in bytes; 0 if it is not known."""
    of_link, length = quantity(rate), quantity(duration)
    if workload != "bulk" or flow_size != "endless" or of_link.kind != "a rate":
        return 0
    if not isinstance(of_link.amount, Fraction) or not isinstance(length.amount, Fraction):
        return 0
    seconds = length.amount / 10**9
    return int(of_link.amount * seconds / 8 / SEGMENT * OF_SEGMENT)
