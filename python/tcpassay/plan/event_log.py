"""A note about cases whose event log may not fit into the memory that a run may have.

On the model the log is in memory until the run has ended. Its size follows from the number of segments, and that from
the rate of the links and the duration, if the application always has data and nothing else limits the connection. It is
therefore a limit from above; the memory that other data needs is not counted.
"""

from collections.abc import Iterable
from fractions import Fraction

from tcpassay.plan.expand import Case
from tcpassay.plan.log_size import OF_SEGMENT, settings, size
from tcpassay.plan.model import PlanFile
from tcpassay.plan.quantity import quantity


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
        said = settings(case.triples)
        if said not in known:
            known[said] = size(*said)
        if isinstance(limit, Fraction) and known[said] > limit:
            large.append((known[said], case))
    if not large:
        return []
    largest, case = max(large, key=lambda one: one[0])
    rate, duration, *_ = settings(case.triples)
    message = (
        f"the event logs of {len(large)} of {total} cases may need more than `limits.case_memory` = "
        f"`{spec.limits.case_memory}`: that of case {case.id} up to about {largest / 1e9:.3g} GB "
        f"({rate} for {duration}, {OF_SEGMENT} bytes for a segment); raise the limit or shorten the run, "
        "or run without logs (`events = false` in [collect] and `oracles = false`)"
    )
    return [message]
