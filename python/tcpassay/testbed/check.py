"""What a testbed can do: its hosts, their interfaces and clocks, and the paths between them."""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from tcpassay import _native, scratch
from tcpassay._native import __version__
from tcpassay.errors import UserError
from tcpassay.messages import CaseRequest, Triples
from tcpassay.testbed import messages
from tcpassay.testbed.as_is import PING
from tcpassay.testbed.connection import Connection, LostError
from tcpassay.testbed.file import Testbed
from tcpassay.testbed.session import PREPARE_S, Session

_BULK: Final[Triples] = {**PING, "app.workload": "bulk", "app.flows": 1, "app.duration": "1s"}
"""The rate of a path: one connection for one second over a link that is faster than any path."""
_FAST: Final[Triples] = {"link.rate": "100Gbit", "link.delay": "0s", "queue.limit": "10MB"}
"""The path between the hosts, where the router makes it."""
_LARGEST_MTU: Final = 9216
_SECONDS: Final = 60.0
"""Maximum time of the questions to a host, and of a run in addition to its preparation."""


@dataclass(frozen=True, slots=True)
class Found:
    """A property of a host or a path."""

    where: str
    """`host alpha`, `path alpha - beta - gamma`."""
    what: str
    ok: bool
    """Otherwise runs fail."""
    found: str

    def as_json(self) -> dict[str, object]:
        """The property as a JSON object."""
        return asdict(self)


def check(testbed: Testbed) -> Iterator[Found]:
    """The properties of all hosts, then of all paths. Nothing of a run remains.

    Raises `UserError` if a host cannot be reached.
    """
    session = Session(testbed)
    try:
        session.open()
        mtus: dict[str, int] = {}
        sound = True
        for connection in session.connections:
            with session.within(time.monotonic() + _SECONDS):
                told = list(_host(testbed, connection, mtus))
            sound = sound and all(found.ok for found in told)
            yield from told
        if not sound:
            return
        yield Found("testbed", "reserved", ok=True, found="; ".join(session.claim()) or "no other controller")
        for sender in (host for host in testbed.hosts if host.role == "sender"):
            for receiver in (host for host in testbed.hosts if host.role == "receiver"):
                yield from _path(session, sender.name, receiver.name, mtus)
    except LostError as error:
        raise UserError(str(error)) from None
    finally:
        session.close()


def _host(testbed: Testbed, connection: Connection, mtus: dict[str, int]) -> Iterator[Found]:
    host = connection.host
    where = f"host {host.name}"
    hello = connection.hello
    how = "installed" if host.agent else "copied"
    same = hello.version == __version__
    yield Found(
        where, "agent", same, f"{how}, version {hello.version}" + ("" if same else f"; this is {__version__}")
    )
    yield Found(
        where, "root", hello.root, "yes" if hello.root else "no: log in as root, or set `sudo = true`"
    )
    if not hello.root:
        return
    interfaces = sorted(set(testbed.interfaces[host.name].values()))
    answer = connection.ask(messages.Inspect(interfaces), messages.Inspected)
    for one in answer.found:
        if one.mtu is not None:
            mtus[host.name] = min(one.mtu, mtus.get(host.name, _LARGEST_MTU))
        yield Found(where, one.what, one.ok, one.found)
    offset = connection.offset()
    yield Found(
        where, "clock", ok=True, found=f"ahead by {offset.ahead / 1e3:.0f} us (+-{offset.error / 1e3:.0f} us)"
    )


def _path(session: Session, sender: str, receiver: str, mtus: dict[str, int]) -> Iterator[Found]:
    """Runs two short cases over a path."""
    routers = [host.name for host in session.testbed.hosts if host.role == "router"]
    names = [sender, *routers, receiver]
    where = f"path {' - '.join(names)}"
    part = session.only(names)
    mtu = min((mtus.get(name, _LARGEST_MTU) for name in names), default=_LARGEST_MTU)
    values: dict[str, float | None] = {}
    # The rate is that of the payload: a machine may be too slow to read every packet of a fast path.
    for triples, metric, taps in ((PING, "rtt_min", True), (_BULK, "goodput", False)):
        with scratch.folder() as place:
            request = CaseRequest(
                substrate="remote",
                collect={"series": None, "taps": taps},
                triples={**triples, **(_FAST if not session.testbed.as_is else {}), "stack.mtu": f"{mtu}B"},
                folder=str(place / "run"),
                seconds=PREPARE_S + session.testbed.quiet_s + _SECONDS,
            )
            try:
                part.check(request.triples, request.base)
            except _native.CaseError as error:
                why = "; ".join(f"`{one[0]}`: {one[3]}" for one in error.args[0])
                yield Found(where, "runs", ok=False, found=why)
                return
            answer = part.run(request)
        if answer.outcome != "done":
            yield Found(where, "runs", ok=False, found=answer.message)
            return
        values[metric] = answer.metrics.get(metric)
    yield Found(where, "MTU", bool(values["goodput"]), f"packets of {mtu} B pass")
    for name, title, unit, size in (("rtt_min", "RTT", "us", 1e-6), ("goodput", "rate", "Mbit/s", 1e6)):
        value = values[name]
        yield Found(
            where, title, value is not None, "none" if value is None else f"{value / size:.0f} {unit}"
        )
