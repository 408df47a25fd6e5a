"""The processes of a run on a testbed, of which this machine sees those of all hosts."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from patience import parent


@dataclass(frozen=True)
class Processes:
    """The processes of all hosts and of the controller; those that are only connected to check cases are left out."""

    agents: list[int]
    """Agents that have reserved their hosts."""
    supervisors: list[int]
    runs: list[int]
    ssh: list[int]
    """Processes of `ssh` that connect the controller with these agents."""

    def every(self) -> set[int]:
        """The numbers of all these processes."""
        return {*self.agents, *self.supervisors, *self.runs, *self.ssh}


def words(process: int) -> list[bytes]:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def members(namespaces: Iterable[str]) -> list[int]:
    """The processes in these PID namespaces. Testbeds of other tests have other ones."""
    found, wanted = [], set(namespaces)
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if str((path / "ns/pid").readlink()) in wanted:
                found.append(int(path.name))
        except OSError:
            continue
    return sorted(found)


def serving(namespaces: Iterable[str]) -> list[int]:
    """The processes of agents that serve a controller, with their supervisors and runs."""

    def serves(process: int) -> bool:
        line = words(process)
        return len(line) > 1 and b"/.cache/tcpassay/agent-" in line[0] and line[1] == b"remote"

    return [one for one in members(namespaces) if serves(one)]


def is_run(process: int) -> bool:
    """Whether a process has another mount namespace than its parent."""
    try:
        own, others = (Path(f"/proc/{one}/ns/mnt").readlink() for one in (process, parent(process)))
    except OSError:
        return False
    return own != others


def leads_session(process: int) -> bool:
    """Whether a process leads a session: supervisors do.

    A child between its `fork` and its `exec` does not, and has the command line of its parent.
    """
    try:
        return os.getsid(process) == process
    except ProcessLookupError:
        return False


def processes(namespaces: Iterable[str]) -> Processes:
    """The processes of runs that exist now."""
    known = set(namespaces)
    all_agents = serving(known)
    children = [one for one in all_agents if parent(one) in all_agents]
    runs = [one for one in children if is_run(one)]
    # A run that begins meanwhile has its mount namespace before its session.
    supervisors = [one for one in children if one not in runs and leads_session(one) and not is_run(one)]
    ssh = []
    for one in members(known):
        line = words(one)
        if line[:1] == [b"ssh"] and any(b'remote "$SSH_CONNECTION"' in word for word in line):
            owner = parent(one)
            # A process of the pool runs the cases; the one that was started by the user checks them.
            if owner is not None and b"tcpassay.run.worker" in words(owner):
                ssh.append(one)
    owners = {parent(one) for one in supervisors}
    return Processes([one for one in all_agents if one in owners], supervisors, runs, ssh)
