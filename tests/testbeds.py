"""A testbed on one machine: hosts with sshd in network namespaces, and a namespace for the controller.

Each host has its own `/run`, `/root`, `/var/lib`, `/sys` and processes. When the first process of a PID namespace
ends, the kernel ends all others in it. The first processes end with the test, whatever ends it, so that nothing remains
of a testbed.
"""

import contextlib
import difflib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import agents
from patience import children, parent, until
from tcpassay.errors import UserError
from tcpassay.substrate.agent import agent_program

SSHD = "/usr/sbin/sshd"
# Folders of a host that other hosts must not see.
OWN = ("/run", "/root", "/var/lib")
# Files that stay after the first connection and the first run: the lock, an empty folder, and the copied agent.
STAYS = tuple(
    word
    for path in ("/run/tcpassay-host.lock", "/run/netns", "/root/.cache", "/root/.cache/tcpassay",
                 "/root/.cache/tcpassay/agent-*")
    for word in ("-not", "-path", path)
)  # fmt: skip


def lacking() -> str:
    """The reason why no testbed can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "a testbed of namespaces needs root"
    for tool in (SSHD, "ssh", "ssh-keygen", "ip", "unshare", "nsenter", "setpriv", "ethtool"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (Debian: openssh-server, openssh-client, iproute2, util-linux, ethtool)"
    try:
        agent_program()
    except UserError as error:
        return str(error)
    return ""


@dataclass
class Testbed:
    """The processes that hold the namespaces, and the testbed file."""

    folder: Path
    holders: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    """The first process of each PID namespace."""
    file: Path = Path()

    def inside(self, name: str, *command: str) -> list[str]:
        """A command in the namespaces of a host or of the controller (`control`)."""
        return ["nsenter", f"--target={self.first[name]}", "--net", "--mount", "--pid", *command]

    def tcpassay(self, *words: str) -> list[str]:
        """A command of the controller, whose user has the files of the folder as named testbeds."""
        settings = self.folder / "settings"
        (settings / "tcpassay").mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (settings / "tcpassay" / "testbeds").symlink_to(self.folder)
        user = ("env", f"XDG_CONFIG_HOME={settings}")
        return self.inside("control", *user, sys.executable, "-m", "tcpassay", *words)

    def namespaces(self, *names: str) -> set[str]:
        """The PID namespaces of these hosts; without names of all hosts and of the controller."""
        return {str(Path(f"/proc/{self.first[name]}/ns/pid").readlink()) for name in names or self.first}

    def processes(self, *names: str) -> agents.Processes:
        """The processes of runs."""
        return agents.processes(self.namespaces(*names))

    def serving(self, *names: str) -> list[int]:
        """The processes of agents."""
        return agents.serving(self.namespaces(*names))

    def states(self) -> dict[str, dict[str, str]]:
        """The state of each host."""
        return {name: self.state(name) for name in self.first if name != "control"}

    def call(self, name: str, *command: str) -> str:
        """The output of a command in the namespaces of a host."""
        done = subprocess.run(self.inside(name, *command), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def link(self, a: str, at_a: str, b: str, at_b: str, *more: str) -> None:
        """A veth pair between two hosts. `ip` is outside of their PID namespaces, because it names them by numbers."""
        subprocess.run(
            ["nsenter", f"--target={self.first[a]}", "--net", "ip", "link", "add", "name", at_a, *more, "type", "veth",
             "peer", "name", at_b, "netns", str(self.first[b])],
            check=True,
        )  # fmt: skip

    def state(self, name: str) -> dict[str, str]:
        """The state of a host that a run might change."""
        commands = (
            ("ip", "-d", "link"),
            ("ip", "-4", "addr"),
            ("ip", "-4", "route", "show", "table", "all"),
            ("ip", "neigh", "show", "nud", "permanent"),
            ("tc", "qdisc"),
            ("sysctl", "-a", "--pattern", r"^net\.(ipv4|core)\."),
            # What a device does not support is an error, and a part of its state.
            *(("sh", "-c", f"ethtool {option} eth1 2>&1 || true") for option in ("-k", "-c", "-g")),
            ("ip", "netns"),
            ("find", *OWN, *STAYS),
        )
        return {" ".join(words): self.call(name, *words) for words in commands}

    def listen(self, name: str) -> None:
        """Starts the sshd of a host."""
        config = self.folder / f"sshd_config.{name}"
        with (self.folder / f"sshd.{name}.log").open("ab") as log:
            self.holders[f"{name}.sshd"] = subprocess.Popen(
                self.inside(name, SSHD, "-D", "-e", "-f", str(config)), stderr=log, start_new_session=True
            )
        until(lambda: "LISTEN" in self.call(name, "ss", "-tln"), "sshd listens")

    def crash(self, name: str) -> None:
        """Ends all processes of a host at once, as a loss of power. Its files remain."""
        sshd = self.holders.pop(f"{name}.sshd")
        # A process that is stopped does not react to the end of another one.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            met: set[int] = set()
            while new := set(agents.members(self.namespaces(name))) - {*met, self.first[name]}:
                met |= new
                for one in new:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(one, number)
        # `nsenter` stops together with its child.
        sshd.send_signal(signal.SIGCONT)
        sshd.wait()

    @contextlib.contextmanager
    def preparing(self, name: str) -> Iterator[None]:
        """Keeps the runs of a host in preparation until the end of the context.

        They have changed settings and made their namespaces, and wait for `ip -batch`.
        """
        found = shutil.which("ip")
        assert found is not None
        tool, copy, waiting = Path(found).resolve(), self.folder / "ip", self.folder / "ip-waits"
        shutil.copy2(tool, copy)
        waiting.touch()
        wrapper = self.folder / "ip-wrapper"
        wait = f'[ "$1" != -batch ] || while [ -e {waiting} ]; do sleep 0.02; done'
        wrapper.write_text(f'#!/bin/sh\n{wait}\nexec {copy} "$@"\n')
        wrapper.chmod(0o755)
        self.call(name, "mount", "--bind", str(wrapper), str(tool))
        try:
            yield
        finally:
            waiting.unlink()
            # A shell may still have the file open.
            self.call(name, "umount", "--lazy", str(tool))

    def boot(self, name: str) -> None:
        """Starts a host that has crashed; its test interfaces have the settings of a boot."""
        self.call(name, "ip", "link", "set", "eth1", "mtu", "1500")
        self.call(name, "ethtool", "-K", "eth1", "tso", "on", "gro", "off")
        self.listen(name)

    def settled(self, before: dict[str, dict[str, str]]) -> None:
        """Waits until all hosts are as they were."""
        try:
            until(lambda: all(self.state(name) == before[name] for name in before), "the hosts are restored")
        except AssertionError as error:
            for name, state in before.items():
                for words, now in self.state(name).items():
                    lines = difflib.unified_diff(
                        state[words].splitlines(), now.splitlines(), lineterm="", n=0
                    )
                    if said := "\n".join(lines):
                        error.add_note(f"{name}, {words}:\n{said}")
            raise


def _hold(testbed: Testbed, name: str, own: Sequence[str]) -> None:
    """Makes the namespaces of a host or of the controller."""
    mounts = " && ".join(f"mount -t tmpfs tmpfs {place}" for place in own)
    more = f"mount -t sysfs sysfs /sys && {mounts} && " if own else ""
    # SIGCHLD is ignored, so that the kernel removes processes whose parents have ended.
    script = f"trap '' CHLD; {more}echo ready && exec sleep infinity"
    # The signal is not sent if this process ends before it was requested.
    living = 'read -r _ _ _ parent _ < /proc/$$/stat; [ "$parent" = "$0" ] && exec "$@"'
    holder = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "sh", "-c", living, str(os.getpid()),
         "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script],
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    testbed.holders[name] = holder
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    (testbed.first[name],) = children(holder.pid)


@contextlib.contextmanager
def testbed(  # noqa: C901 - one step after the other
    folder: Path, roles: dict[str, str], links: Sequence[tuple[str, str]]
) -> Iterator[Testbed]:
    """A testbed with these hosts (name and role) and links."""
    made = Testbed(folder)
    try:
        _hold(made, "control", ())
        made.call("control", "ip", "link", "add", "br0", "type", "bridge")
        made.call("control", "ip", "addr", "add", "192.168.77.1/24", "dev", "br0")
        for device in ("br0", "lo"):
            made.call("control", "ip", "link", "set", device, "up")
        key, host_key = folder / "key", folder / "host_key"
        for one in (key, host_key):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", one], check=True)
        public = " ".join((folder / "host_key.pub").read_text().split()[:2])
        config, known = [], []
        for number, name in enumerate(roles, start=2):
            address = f"192.168.77.{number}"
            _host(made, name, address, f"m{number}")
            config.append(
                f"Host {name}\n  HostName {address}\n  User root\n  IdentityFile {key}\n  IdentitiesOnly yes\n"
                f"  UserKnownHostsFile {folder / 'known'}\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n"
            )
            known.append(f"{address} {public}\n")
        (folder / "ssh_config").write_text("".join(config))
        (folder / "known").write_text("".join(known))
        interfaces = dict.fromkeys(roles, 0)
        # Runs do not wait for an idle machine.
        text = ['ssh_config = "ssh_config"\nquiet_s = 0\n']
        text += [
            f'[[host]]\nname = "{name}"\nssh = "{name}"\nrole = "{role}"\n' for name, role in roles.items()
        ]
        for a, b in links:
            ends = []
            for name in (a, b):
                interfaces[name] += 1
                ends.append(f"eth{interfaces[name]}")
            made.link(a, ends[0], b, ends[1])
            for name, end in zip((a, b), ends, strict=True):
                made.call(name, "ip", "link", "set", end, "up")
            text.append(f'[[link]]\nbetween = ["{a}:{ends[0]}", "{b}:{ends[1]}"]\n')
        for name, count in interfaces.items():
            for end in range(1, count + 1):
                until(
                    lambda name=name, end=end: (
                        "state UP" in made.call(name, "ip", "link", "show", f"eth{end}")
                    ),
                    "carrier",
                )
        made.file = folder / "testbed.toml"
        made.file.write_text("\n".join(text))
        yield made
    finally:
        for holder in made.holders.values():
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            if holder.stdout is not None:
                holder.stdout.close()
        for first in made.first.values():
            until(lambda first=first: parent(first) is None, "the processes of a host end")


def _host(made: Testbed, name: str, address: str, device: str) -> None:
    """The namespaces of a host with its sshd, connected to the controller."""
    _hold(made, name, OWN)
    made.link("control", device, name, "mgmt0", "master", "br0")
    made.call("control", "ip", "link", "set", device, "up")
    made.call(name, "ip", "addr", "add", f"{address}/24", "dev", "mgmt0")
    for one in ("lo", "mgmt0"):
        made.call(name, "ip", "link", "set", one, "up")
    made.call(name, "mkdir", "-p", "/run/sshd")
    folder = made.folder
    config = folder / f"sshd_config.{name}"
    config.write_text(
        f"ListenAddress {address}\nHostKey {folder / 'host_key'}\nAuthorizedKeysFile {folder / 'key.pub'}\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nUsePAM no\nStrictModes no\nPidFile none\n"
    )
    made.listen(name)
