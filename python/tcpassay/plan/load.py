"""Notes about cases whose offered load exceeds the rate of a link, so that its queue grows during the whole run.

This may be intended, but a p99 of such a run depends on its duration. Only loads known before the run are counted: open
loops (`app.arrival` with a rate), paced sources and background UDP, on every link between senders and receivers.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.plan import table
from tcpassay.plan.expand import Case
from tcpassay.plan.fields import Scalar
from tcpassay.plan.network import Flow, Network, network, rates
from tcpassay.plan.quantity import quantity

_RATE: Final = "a rate"
_BYTES: Final = "a number of bytes"
_OF_SENDER: Final = (
    "app.workload", "app.arrival", "app.flow_size", "app.request", "app.rate", "app.flows",
)  # fmt: skip
_READ: Final = (
    *_OF_SENDER, "app.background", "topology", "rack.hosts", "rack.fanout", "rack.uplink", "link.rate", "queue.kind",
    "queue.rate",
)  # fmt: skip
_PER_SECOND: Final = re.compile(r"(\d+(?:\.\d+)?)/s")
_LABEL: Final = 100
"""Maximum number of characters of a case's settings in a note; the name of the case identifies longer ones."""
_Known = dict[tuple[tuple[str, str], ...], "_Load | None"]


@dataclass(frozen=True, slots=True)
class _Load:
    """The link of a case with the highest load relative to its rate."""

    link: str
    offered: Fraction
    """In bit/s."""
    capacity: Fraction
    senders: frozenset[Fraction]
    """The load of each sender, without duplicates."""
    count: int
    """Number of senders."""


def notes(cases: Iterable[Case], base: Path = Path()) -> list[str]:
    """A note if the offered load of cases exceeds the rate of a link. `base` is the folder of relative file names."""
    over: list[tuple[Case, _Load]] = []
    total = 0
    known: _Known = {}
    for case in cases:
        total += 1
        load = _most(case.triples, base, known) if case.expect == "done" and case.script is None else None
        if load is not None and load.offered > load.capacity:
            over.append((case, load))
    if not over:
        return []
    case, load = max(over, key=lambda one: one[1].offered / one[1].capacity)
    each = ""
    if load.count > 1:
        same = f", each with {_bits(*load.senders)}" if len(load.senders) == 1 else ""
        each = f" ({load.count} senders{same})"
    what = "the bottleneck carries" if load.link == "bottleneck" else "a link carries"
    where = "" if load.link == "bottleneck" else f" of link `{load.link}`"
    label = f" ({case.label})" if 0 < len(case.label) <= _LABEL else ""
    said = (
        f"{_some(len(over), total)} more load than {what}, so that queues and latencies grow with the length of the "
        f"run; the largest: {_bits(load.offered)}{each} into {_bits(load.capacity)}{where} "
        f"in case {case.id}{label}. `app.arrival`, `app.rate` and `app.flows` are per sender."
    )
    return [said]


def _some(number: int, total: int) -> str:
    if total == 1:
        return "the case offers"
    return f"{number} of {total} cases {'offers' if number == 1 else 'offer'}"


def _most(triples: Mapping[str, Scalar], base: Path, known: _Known) -> _Load | None:
    """The link with the highest load relative to its rate; `None` if unknown. Equal cases are counted once."""
    read = {path: str(value) for path, value in triples.items() if path.rpartition("/")[2] in _READ}
    key = tuple(sorted(read.items()))
    if key not in known:
        known[key] = _counted(read, base)
    return known[key]


def _counted(read: Mapping[str, str], base: Path) -> _Load | None:
    def plain(path: str) -> str:
        return read.get(path, str(table.parameters()[path].default))

    def value(path: str, addresses: tuple[str, ...]) -> str | None:
        return next((read[f"{one}/{path}"] for one in addresses if f"{one}/{path}" in read), None)

    hosts, fanout = (int(_amount(plain(path), "a number") or 0) for path in ("rack.hosts", "rack.fanout"))
    net = network(plain("topology"), hosts, fanout, base)
    if net is None:
        return None
    capacities = rates(net, value, plain, lambda text: _amount(text, _RATE))
    offered = _by_flow(net, value, plain)
    if offered is None:
        return None
    background = _background(net, plain("app.background"), capacities)
    if background is None:
        return None
    carried: dict[tuple[int, bool], Fraction] = {}
    senders: dict[tuple[int, bool], dict[str, Fraction]] = {}
    for flow, load, beside in zip(net.flows, offered, background, strict=True):
        for hop in flow.path:
            carried[hop] = carried.get(hop, Fraction(0)) + load + beside
            each = senders.setdefault(hop, {})
            each[flow.sender] = each.get(flow.sender, Fraction(0)) + load
    known = [
        (total / rate, hop, rate)
        for hop, total in carried.items()
        if (rate := capacities[hop[0]]) is not None and rate > 0
    ]
    if not known:
        return None
    # Among links with equal load, the last one on the data path is named, as the bottleneck of a star.
    most = max(busy for busy, _, _ in known)
    _, hop, rate = min((one for one in known if one[0] == most), key=lambda one: one[1][0])
    each = senders[hop]
    return _Load(net.links[hop[0]].name, carried[hop], rate, frozenset(each.values()), len(each))


def _by_flow(
    net: Network, value: Callable[[str, tuple[str, ...]], str | None], plain: Callable[[str], str]
) -> list[Fraction] | None:
    """The offered load of the application of each pair of hosts in bit/s; `None` if one is unknown."""
    sends, receives = {flow.sender for flow in net.flows}, {flow.receiver for flow in net.flows}
    pairs: dict[str, int] = {}
    for flow in net.flows:
        pairs[flow.sender] = pairs.get(flow.sender, 0) + 1

    def of(flow: Flow) -> Fraction | None:
        sides = ("sender", "receiver") if flow.sender in receives & sends else ("sender",)
        addresses = tuple(dict.fromkeys((flow.sender, *sides)))
        said = {path: value(path, addresses) or plain(path) for path in _OF_SENDER}
        each = _each(said)
        # Arrivals are per sender and distributed over its receivers; paced sources are per pair.
        return each if each is None or said["app.workload"] == "paced" else each / pairs[flow.sender]

    loads = [of(flow) for flow in net.flows]
    return None if any(load is None for load in loads) else [load for load in loads if load is not None]


def _background(net: Network, said: str, capacities: list[Fraction | None]) -> list[Fraction] | None:
    """The load of background traffic by flow in bit/s; `None` if unknown."""
    kind, _, share = said.partition(":")
    beside = [Fraction(0)] * len(net.flows)
    if kind == "udp":
        beside[0] = _amount(share, _RATE) or Fraction(0)
    elif kind == "poisson" and share.endswith("%"):
        path = [capacities[link] for link, _ in net.flows[0].path]
        if any(rate is None for rate in path):
            return None
        whole = min(rate for rate in path if rate is not None) * (_amount(share, "a number") or 0)
        senders = [flow.sender for flow in net.flows]
        beside = [whole / len(set(senders)) / senders.count(sender) for sender in senders]
    return beside


def _each(said: Mapping[str, str]) -> Fraction | None:
    """The offered load of one sender in bit/s; for a paced source, to each receiver."""
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
