"""Runs cases on the hosts of a testbed: `remote:NAME` (docs/testbed.md).

A process has one session for each testbed, whose connections remain open from case to case.
"""

import atexit
from typing import Final

from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.messages import Answer, CaseRequest, Triples
from tcpassay.substrate.base import Folder, RunArtifacts
from tcpassay.testbed import file
from tcpassay.testbed.connection import LostError
from tcpassay.testbed.session import Session
from tcpassay.trust import consent

_SESSIONS: Final[dict[str, Session]] = {}


def session(name: str) -> Session:
    """The session of a testbed in this process; it is connected when it is first used."""
    if name not in _SESSIONS:
        _SESSIONS[name] = Session(file.load(name))
        atexit.register(_SESSIONS[name].close)
    return _SESSIONS[name]


def _close_others_with_hosts_of(made: Session) -> None:
    """Ends the connections of other testbeds that have hosts of this one, as in a plan that compares two testbeds."""
    hosts = {host.ssh for host in made.testbed.hosts}
    for other in _SESSIONS.values():
        if other is not made and other.claimed and hosts & {host.ssh for host in other.testbed.hosts}:
            other.close()


class Remote:
    """The hosts of a testbed in real time."""

    real_time = True

    def __init__(self, name: str) -> None:
        self._name = name

    def check(self, triples: Triples, base: str) -> dict[str, str]:
        """The settings that differ from the defaults, according to the agents of all hosts.

        A command that only reads has no connections; it compares the case with the tables.
        """
        if not consent.current().connects:
            file.find(self._name)
            return _native.check_case(triples, base, remote=True)
        made = session(self._name)
        try:
            made.open()
            return made.check(triples, base)
        except LostError as error:
            made.close()
            raise UserError(str(error)) from None

    def ready(self) -> None:
        """Requires that all hosts can be reached, and that their agents have root rights."""
        made = session(self._name)
        made.open()
        if lacking := [one.host.name for one in made.connections if not one.hello.root]:
            raise UserError(
                f"the agent of host `{lacking[0]}` has no root rights: log in as root, or set `sudo = true` for it"
            )

    def run(self, request: CaseRequest) -> tuple[Answer, RunArtifacts | None]:
        """Runs a case with the time limit `seconds` of the request."""
        made = session(self._name)
        _close_others_with_hosts_of(made)
        answer = made.run(request)
        return answer, Folder(request.folder) if answer.outcome == "done" else None


def release(name: str) -> str | None:
    """The kernels of the hosts; `None` unless they are connected."""
    connections = _SESSIONS[name].connections if name in _SESSIONS else []
    return ", ".join(f"{one.host.name}: {one.hello.release}" for one in connections) or None
