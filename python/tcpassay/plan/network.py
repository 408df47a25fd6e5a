"""The links on the data path of a case with their rates, as far as they are known before a run.

The data plane builds the network (crates/case/src/topology); this module provides the part that the note about offered
load needs.
"""

import re
import tomllib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Final

from tcpassay import regular

_COUNTED: Final = re.compile(r"(dumbbell|star):(\d+)")
_RACKS: Final = re.compile(r"racks:(\d+)x(\d+)")
_LARGEST: Final = 4 << 20
"""The largest file of a topology in bytes, as in crates/case/src/topology/file.rs."""
MOST_FLOWS: Final = 4096
"""Maximum number of pairs of hosts in an analysed network."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link with its two nodes in the direction of data."""

    name: str
    group: str
    ends: tuple[str, str]
    rate: str | None = None
    """The rate in the topology file."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of parameters that apply to the link, the most specific first."""
        return (self.name,) if self.name == self.group else (self.name, self.group)


@dataclass(frozen=True, slots=True)
class Flow:
    """A pair of hosts, and the indices of the links between them, in the direction of the data."""

    sender: str
    receiver: str
    path: tuple[tuple[int, bool], ...]


@dataclass(frozen=True, slots=True)
class Network:
    """The links and flows of a topology."""

    shape: str
    links: tuple[Link, ...]
    flows: tuple[Flow, ...]


@lru_cache(maxsize=64)
def network(topology: str, rack_hosts: int, rack_fanout: int, base: Path) -> Network | None:
    """The network of a topology; `None` if it is too large or if its file is invalid."""
    if topology == "pair":
        return _routed(
            "pair", (Link("bottleneck", "bottleneck", ("sender", "receiver")),), [("sender", "receiver")]
        )
    if match := _COUNTED.fullmatch(topology):
        count = int(match[2])
        return None if count > MOST_FLOWS else _around_one(match[1], count)
    if match := _RACKS.fullmatch(topology):
        storage, worker = int(match[1]), int(match[2])
        fanout = min(rack_fanout, worker * rack_hosts)
        if max(storage * fanout, worker) * rack_hosts > MOST_FLOWS:
            return None
        return _racks(storage, worker, rack_hosts, fanout)
    kind, _, name = topology.partition(":")
    return _of_file(base / name) if kind == "file" else None


def _around_one(shape: str, count: int) -> Network | None:
    """A dumbbell or a star."""
    ends = ("left", "right") if shape == "dumbbell" else ("left", "receiver")
    links = [Link("bottleneck", "bottleneck", ends)]
    flows = []
    for number in range(count):
        sender, receiver = f"sender{number}", "receiver"
        links.append(Link(f"access-{sender}", "access", (sender, "left")))
        if shape == "dumbbell":
            receiver = f"receiver{number}"
            links.append(Link(f"access-{receiver}", "access", ("right", receiver)))
        flows.append((sender, receiver))
    return _routed(shape, links, flows)


def _racks(storage: int, worker: int, hosts: int, fanout: int) -> Network | None:
    links = []
    for rack in range(storage + worker):
        sends = rack < storage
        ends = (f"rack{rack}", "spine") if sends else ("spine", f"rack{rack}")
        links.append(Link(f"uplink-rack{rack}", "uplink", ends))
        for number in range(hosts):
            host = (
                f"sender{rack * hosts + number}" if sends else f"receiver{(rack - storage) * hosts + number}"
            )
            ends = (host, f"rack{rack}") if sends else (f"rack{rack}", host)
            links.append(Link(f"access-{host}", "access", ends))
    receivers, senders = worker * hosts, range(storage * hosts)
    flows = [
        (f"sender{one}", f"receiver{(one + step) % receivers}") for step in range(fanout) for one in senders
    ]
    return _routed("racks", links, flows)


def _of_file(file: Path) -> Network | None:
    try:
        said = tomllib.loads(regular.read_bytes(file, largest=_LARGEST).decode())
        links = [
            Link(f"{link['from']}-{link['to']}", "link", (link["from"], link["to"]), link.get("rate"))
            for link in said["links"]
        ]
        flows = [(flow["from"], flow["to"]) for flow in said["flows"]]
        return None if len(flows) > MOST_FLOWS else _routed("file", links, flows)
    except (OSError, ValueError, KeyError, TypeError):  # the check of the cases reports the error
        return None


def _routed(shape: str, links: Iterable[Link], flows: Iterable[tuple[str, str]]) -> Network | None:
    """The network with the paths of the flows.

    Fewest links, ties by the order of links; `None` if a flow has no path.
    """
    links = tuple(links)
    at: dict[str, list[int]] = {}
    for index, link in enumerate(links):
        for end in link.ends:
            at.setdefault(end, []).append(index)
    towards: dict[str, Callable[[str], tuple[int, bool] | None]] = {}
    routed = []
    for sender, receiver in flows:
        if receiver not in towards:
            towards[receiver] = _next_links(links, at, receiver).get
        path, here = [], sender
        while here != receiver:
            hop = towards[receiver](here)
            if hop is None:
                return None
            path.append(hop)
            here = links[hop[0]].ends[1 if hop[1] else 0]
        routed.append(Flow(sender, receiver, tuple(path)))
    return Network(shape, links, tuple(routed))


def _next_links(links: tuple[Link, ...], at: dict[str, list[int]], to: str) -> dict[str, tuple[int, bool]]:
    """For each node, the link towards a host, and whether it is used in the forward direction.

    Hosts have one link and do not forward.
    """
    found: dict[str, tuple[int, bool]] = {}
    queue = deque([to])
    while queue:
        here = queue.popleft()
        for index in at.get(here, ()):
            start, end = links[index].ends
            forward = end == here
            there = start if forward else end
            if there != to and there not in found:
                found[there] = (index, forward)
                if len(at[there]) > 1:
                    queue.append(there)
    return found


def rates(
    net: Network, value: Callable[[str, tuple[str, ...]], str | None], plain: Callable[[str], str],
    amount: Callable[[str], Fraction | None],
) -> list[Fraction | None]:  # fmt: skip
    """The rate of each link in bit/s; `None` if it varies.

    `value` returns a parameter with an address, `plain` without an address; `amount` parses a rate.
    """
    main = [net.shape in {"racks", "file"} or link.group == "bottleneck" for link in net.links]
    every: list[Fraction | None] = []
    for link, is_main in zip(net.links, main, strict=True):
        addressed = value("link.rate", link.addresses)
        if addressed is None and link.rate is not None:
            addressed = link.rate
        if addressed is not None:
            rate = amount(addressed)
        elif is_main:
            rate = amount(plain("link.rate"))
        else:
            rate = _access(net, value, plain, amount)
        every.append(rate)
    for index, link in enumerate(net.links):
        if link.group == "uplink" and value("link.rate", link.addresses) is None:
            every[index] = _uplink(net, every, link, amount(plain("rack.uplink")))
    for index, (link, is_main) in enumerate(zip(net.links, main, strict=True)):
        kind = value("queue.kind", link.addresses) or (plain("queue.kind") if is_main else "")
        shaped = value("queue.rate", link.addresses) or (plain("queue.rate") if is_main else "")
        rate, shaper = every[index], amount(shaped)
        if kind in {"htb", "tbf"} and rate is not None and shaper is not None:
            every[index] = min(rate, shaper)
    return every


def _access(
    net: Network, value: Callable[[str, tuple[str, ...]], str | None], plain: Callable[[str], str],
    amount: Callable[[str], Fraction | None],
) -> Fraction | None:  # fmt: skip
    """The rate of access links: that of the bottleneck in a star, ten times as much in a dumbbell."""
    rate = amount(value("link.rate", ("bottleneck",)) or plain("link.rate"))
    return rate if rate is None or net.shape != "dumbbell" else 10 * rate


def _uplink(
    net: Network, every: list[Fraction | None], uplink: Link, said: Fraction | None
) -> Fraction | None:
    """`rack.uplink`, or the sum of the rates of the rack's hosts."""
    if said is not None:
        return said
    hosts = [
        rate
        for link, rate in zip(net.links, every, strict=True)
        if link.group == "access" and set(link.ends) & set(uplink.ends)
    ]
    return sum((rate for rate in hosts if rate is not None), Fraction(0)) or None
