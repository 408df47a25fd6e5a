"""A testbed inside one machine: hosts with an sshd each in network namespaces, and a namespace of the controller.

Each host has its own `/run`, `/root`, `/var/lib` and `/sys`. Everything ends with the processes of the namespaces.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patience import until

SSHD = "/usr/sbin/sshd"
# Folders of a host that other hosts must not see.
OWN = ("/run", "/root", "/var/lib")


def lacking() -> str:
    """The reason why no lab can be made here; empty if one can."""
    if os.geteuid() != 0:
        return "a lab of namespaces needs root"
    for tool in (SSHD, "ssh", "ssh-keygen", "ip", "unshare", "nsenter", "ethtool"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (Debian: openssh-server, openssh-client, iproute2, util-linux, ethtool)"
    return ""


@dataclass
class Lab:
    """The processes that hold the namespaces, and the testbed file."""

    folder: Path
    holders: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    file: Path = Path()

    def inside(self, name: str, *command: str) -> list[str]:
        """A command in the namespaces of a host or of the controller (`control`)."""
        return ["nsenter", f"--target={self.holders[name].pid}", "--net", "--mount", *command]

    def call(self, name: str, *command: str) -> str:
        """The output of a command in the namespaces of a host."""
        done = subprocess.run(self.inside(name, *command), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
        return done.stdout

    def state(self, name: str) -> dict[str, str]:
        """What of a host a run might change."""
        commands = (
            ("ip", "-d", "link"),
            ("ip", "-4", "addr"),
            ("ip", "-4", "route", "show", "table", "all"),
            ("ip", "neigh", "show", "nud", "permanent"),
            ("tc", "qdisc"),
            ("sysctl", "-a", "--pattern", r"^net\.(ipv4|core)\."),
            ("ethtool", "-k", "eth1"),
            ("ls", "-A", "/var/lib"),
        )
        return {" ".join(words): self.call(name, *words) for words in commands}

    def settled(self, before: dict[str, dict[str, str]]) -> None:
        """Waits until all hosts are as they were."""
        try:
            until(lambda: all(self.state(name) == before[name] for name in before), "the hosts are restored")
        except AssertionError:
            for name, state in before.items():
                assert self.state(name) == state
            raise


def _hold(own: Sequence[str]) -> subprocess.Popen[bytes]:
    mounts = "; ".join(f"mount -t tmpfs tmpfs {place}" for place in own)
    script = (
        f"mount -t sysfs sysfs /sys; {mounts}; echo ready; exec sleep infinity"
        if own
        else "echo ready; exec sleep infinity"
    )
    holder = subprocess.Popen(
        ["unshare", "--net", "--mount", "sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"ready\n"
    return holder


@contextlib.contextmanager
def lab(  # noqa: C901 - one step after the other
    folder: Path, roles: dict[str, str], links: Sequence[tuple[str, str]]
) -> Iterator[Lab]:
    """A lab with these hosts (name and role) and links."""
    made = Lab(folder)
    try:
        made.holders["control"] = _hold(())
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
        text = ['ssh_config = "ssh_config"\n']
        text += [
            f'[[host]]\nname = "{name}"\nssh = "{name}"\nrole = "{role}"\n' for name, role in roles.items()
        ]
        for a, b in links:
            ends = []
            for name in (a, b):
                interfaces[name] += 1
                ends.append(f"eth{interfaces[name]}")
            pids = [str(made.holders[name].pid) for name in (a, b)]
            made.call(
                "control", "ip", "link", "add", "name", ends[0], "netns", pids[0], "type", "veth",
                "peer", "name", ends[1], "netns", pids[1],
            )  # fmt: skip
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
        made.file = folder / "lab.toml"
        made.file.write_text("\n".join(text))
        yield made
    finally:
        for holder in made.holders.values():
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            if holder.stdout is not None:
                holder.stdout.close()


def _host(made: Lab, name: str, address: str, device: str) -> None:
    """The namespaces of a host with its sshd, connected to the controller."""
    made.holders[name] = _hold(OWN)
    pid = str(made.holders[name].pid)
    made.call(
        "control", "ip", "link", "add", "name", device, "master", "br0", "type", "veth", "peer", "name", "mgmt0",
        "netns", pid,
    )  # fmt: skip
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
    # A daemon: it ends when the test ends it, by the number that it writes.
    with (folder / f"sshd.{name}.log").open("wb") as log:
        made.holders[f"{name}.sshd"] = subprocess.Popen(
            made.inside(name, SSHD, "-D", "-e", "-f", str(config)), stderr=log, start_new_session=True
        )
    until(lambda: "LISTEN" in made.call(name, "ss", "-tln"), "sshd listens")
