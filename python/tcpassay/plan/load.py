"""Cases whose applications offer more than the path can carry: their queues grow for as long as the run lasts.

That may be meant, but a p99 of such a run measures how long it was. Only what is known before the run is counted: open
loops (`app.arrival` with a rate), paced writers and competing UDP, over the one bottleneck of `pair`, `dumbbell` and
`star`.
"""

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

from tcpassay.errors import UserError
from tcpassay.plan import table
from tcpassay.plan.expand import Case
from tcpassay.plan.model import Scalar
from tcpassay.plan.quantity import quantity

_RATE: Final = "a rate"
_BYTES: Final = "a number of bytes"
_READ: Final = (
    "app.workload", "app.arrival", "app.flow_size", "app.request", "app.rate", "app.flows", "app.background",
    "link.rate", "topology",
)  # fmt: skip
_SENDERS: Final = re.compile(r"(?:dumbbell|star):(\d+)")
_PER_SECOND: Final = re.compile(r"(\d+(?:\.\d+)?)/s")


def notes(cases: Iterable[Case]) -> list[str]:
    """A sentence when cases offer more than their bottleneck carries; nothing otherwise."""
    over: list[tuple[Case, Fraction, Fraction, int]] = []
    total = 0
    for case in cases:
        total += 1
        known = _load(case.triples) if case.expect == "done" and case.script is None else None
        if known is not None and known[0] > known[1]:
            over.append((case, *known))
    if not over:
        return []
    case, offered, capacity, senders = max(over, key=lambda one: one[1] / one[2])
    each = f" ({senders} senders, each with {_bits(offered / senders)})" if senders > 1 else ""
    said = (
        f"{len(over)} of {total} cases offer more load than the bottleneck carries, so that their queues and latencies "
        f"grow with the length of the run; the most: {_bits(offered)}{each} into {_bits(capacity)} in case {case.id}"
        f"{f' ({case.label})' if case.label else ''}. `app.arrival`, `app.rate` and `app.flows` are per sender."
    )
    return [said]


def _load(triples: Mapping[str, Scalar]) -> tuple[Fraction, Fraction, int] | None:
    """Offered bits a second, those that the bottleneck carries, and the number of senders; `None` when not known."""
    said = {name: str(triples.get(name, table.parameters()[name].default)) for name in _READ}
    if any("/" in path and path.rpartition("/")[2] in _READ for path in triples):
        return None
    senders = 1
    if said["topology"] != "pair":
        match = _SENDERS.fullmatch(said["topology"])
        if match is None:
            return None
        senders = int(match[1])
    capacity = _amount(said["link.rate"], _RATE)
    offered = _each(said)
    if capacity is None or offered is None:
        return None
    offered *= senders
    kind, _, share = said["app.background"].partition(":")
    if kind == "udp":
        offered += _amount(share, _RATE) or 0
    elif kind == "poisson" and share.endswith("%"):
        offered += capacity * (_amount(share, "a number") or 0)
    return (offered, capacity, senders) if capacity > 0 else None


def _each(said: Mapping[str, str]) -> Fraction | None:
    """Bits a second that one sender offers."""
    workload = said["app.workload"]
    if workload == "paced":
        written, flows = _amount(said["app.rate"], _RATE), _amount(said["app.flows"], "a number")
        return None if written is None or flows is None else written * flows
    size = {"bulk": "app.flow_size", "rpc-open": "app.request"}.get(workload)
    kind, _, rate = said["app.arrival"].partition(":")
    if size is None or kind not in {"poisson", "uniform"}:
        return Fraction(0) if kind == "closed" else None
    if (load := _amount(rate, _RATE)) is not None:
        return load
    match, mean = _PER_SECOND.fullmatch(rate), _mean(said[size])
    return None if match is None or mean is None else Fraction(match[1]) * mean * 8


def _mean(size: str) -> Fraction | None:
    """The mean of a size or of a distribution of sizes, in bytes."""
    kind, _, rest = size.partition(":")
    if kind in {"exp", "pareto"}:
        return _amount(rest.partition(":")[0], _BYTES)
    if kind == "choice":
        total, weights = Fraction(0), Fraction(0)
        for part in rest.split(","):
            one, _, weight = part.partition("@")
            amount, share = _amount(one, _BYTES), _amount(weight or "1", "a number")
            if amount is None or share is None:
                return None
            total, weights = total + amount * share, weights + share
        return total / weights if weights else None
    return _amount(size, _BYTES)


def _amount(text: str, kind: str) -> Fraction | None:
    try:
        made = quantity(int(text) if text.isdigit() and kind == "a number" else text)
    except UserError:
        return None
    return made.amount if made.kind == kind and isinstance(made.amount, Fraction) else None


def _bits(rate: Fraction) -> str:
    for size, name in ((10**9, "Gbit/s"), (10**6, "Mbit/s"), (10**3, "Kbit/s")):
        if rate >= size:
            return f"{float(rate / size):.4g} {name}"
    return f"{float(rate):.4g} bit/s"
