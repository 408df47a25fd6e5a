"""A testbed of virtual machines: hosts of QEMU, connected by bridges in a network namespace."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from image import Image, Kernel

_BOOT_S: Final = 300.0
"""Maximum time until a machine can be reached."""
_KERNEL_WORDS: Final = "console=ttyS0 net.ifnames=0 mitigations=off panic=-1"
_NETWORK: Final = "10.77.0"
"""The network of the controller and the machines; it exists in a namespace of its own."""


class LabError(Exception):
    """A machine does not do what is expected of it."""


@dataclass(frozen=True)
class Guest:
    """A virtual machine."""

    name: str
    role: str
    nics: tuple[str, ...]
    """The devices of QEMU that its test interfaces are."""
    sudo: bool = False
    """The controller logs in as a user who may call `sudo -n`."""


@dataclass
class Lab:
    """The machines that run, and the network namespace of their bridges and of the controller."""

    folder: Path
    image: Image
    guests: tuple[Guest, ...]
    links: tuple[tuple[str, str], ...]
    """Each between two interfaces, as `alpha:test1`."""
    holder: subprocess.Popen[bytes] | None = None
    machines: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """The testbed file."""
        return self.folder / "lab.toml"

    def inside(self, *command: str | Path) -> list[str]:
        """A command in the namespace of the bridges."""
        if self.holder is None:
            raise LabError("the lab is closed")
        return ["nsenter", f"--target={self.holder.pid}", "--net", *map(str, command)]

    def call(self, *command: str | Path) -> str:
        """The output of a command in the namespace of the bridges."""
        done = subprocess.run(self.inside(*command), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(f"`{' '.join(map(str, command))}`: {done.stderr.strip()}")
        return done.stdout

    def on(self, name: str, command: str) -> str:
        """The output of a command of a shell on a machine, as root."""
        words = ("ssh", "-F", self.folder / "ssh_config", "-o", "BatchMode=yes", "--", f"root@{name}")
        return self.call(*words, command)

    def _user(self) -> tuple[str, str]:
        """The settings of a user who has the files of the folder as named testbeds."""
        settings = self.folder / "settings"
        (settings / "tcpassay").mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (settings / "tcpassay" / "testbeds").symlink_to(self.folder)
        return "env", f"XDG_CONFIG_HOME={settings}"

    def tcpassay(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """A command of the controller that has ended."""
        command = self.inside(*self._user(), sys.executable, "-m", "tcpassay", *words)
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def begin(self, *words: str | Path) -> "subprocess.Popen[str]":
        """A command of the controller that goes on."""
        command = self.inside(*self._user(), sys.executable, "-m", "tcpassay", *words)
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def open(self) -> None:
        """Makes the bridges."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.holder = subprocess.Popen(
            [
                "setpriv",
                "--pdeathsig",
                "KILL",
                "unshare",
                "--net",
                "sh",
                "-c",
                "echo ready && exec sleep infinity",
            ],
            stdout=subprocess.PIPE,
        )
        if self.holder.stdout is None or self.holder.stdout.readline() != b"ready\n":
            raise LabError("no network namespace can be made")
        self._bridge("lab0")
        self.call("ip", "addr", "add", f"{_NETWORK}.1/24", "dev", "lab0")
        self.call("ip", "link", "set", "lo", "up")
        for number in range(1, len(self.links) + 1):
            self._bridge(f"lab{number}")
        self._write_files()

    def _bridge(self, name: str) -> None:
        self.call("ip", "link", "add", name, "mtu", "9216", "type", "bridge")
        self.call("ip", "link", "set", name, "up")

    def _write_files(self) -> None:
        names = [guest.name for guest in self.guests]
        config = [
            f"Host {guest.name}\n  HostName {_NETWORK}.{number}\n  User {'lab' if guest.sudo else 'root'}\n"
            f"  IdentityFile {self.image.key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {self.folder / 'known'}\n"
            "  StrictHostKeyChecking yes\n  LogLevel ERROR\n"
            for number, guest in enumerate(self.guests, start=2)
        ]
        known = [f"{_NETWORK}.{number} {self.image.host_key}\n" for number in range(2, len(names) + 2)]
        (self.folder / "ssh_config").write_text("".join(config))
        (self.folder / "known").write_text("".join(known))
        self.write_file(self.file)

    def write_file(self, file: Path, **settings: object) -> None:
        """Writes a testbed file with these settings."""
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in settings.items()]
        lines.append(f"ssh_config = {json.dumps(str(self.folder / 'ssh_config'))}\n")
        for guest in self.guests:
            lines.append(f'[[host]]\nname = "{guest.name}"\nssh = "{guest.name}"\nrole = "{guest.role}"\n')
            lines.append(f"sudo = {json.dumps(guest.sudo)}\n")
            lines.append('allow = ["up", "mtu", "offloads", "coalescing", "rings", "controllers"]\n')
        lines += [f"[[link]]\nbetween = {json.dumps(list(link))}\n" for link in self.links]
        file.write_text("".join(lines))

    def start(self, name: str, kernel: Kernel) -> None:
        """Starts a machine. Its disk is that of the image; what it changes ends with QEMU, not with a reboot."""
        number = [guest.name for guest in self.guests].index(name) + 1
        guest = self.guests[number - 1]
        words = [
            "qemu-system-x86_64", "-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "1", "-m", "384", "-nodefaults",
            "-display", "none", "-no-user-config", "-serial", f"file:{self.folder / f'{name}.console'}",
            "-qmp", f"unix:{self.folder / f'{name}.qmp'},server=on,wait=off",
            "-kernel", kernel.image, "-initrd", kernel.initramfs, "-append",
            f"{_KERNEL_WORDS} lab.name={name} lab.address={_NETWORK}.{number + 1}/24",
            "-drive", f"file={self.image.disk},format=raw,if=virtio,snapshot=on",
        ]  # fmt: skip
        for index, device in enumerate(("virtio-net-pci", *guest.nics)):
            tap = f"{name}{index}"
            bridge = 0 if index == 0 else 1 + self._link_of(f"{name}:test{index}")
            if tap not in self.call("ip", "-o", "link"):
                self.call("ip", "tuntap", "add", "dev", tap, "mode", "tap", *self._vnet(device))
                self.call("ip", "link", "set", tap, "mtu", "9216", "master", f"lab{bridge}", "up")
            kind, _, more = device.partition(",")
            mac = f"mac=52:54:00:00:{number:02x}:{index:02x}"
            words += ["-netdev", f"tap,id=net{index},ifname={tap},script=no,downscript=no", "-device"]
            words.append(",".join(filter(None, (kind, f"netdev=net{index}", mac, more, "romfile="))))
        environment = {**os.environ, "TMPDIR": str(self.folder)}
        with (self.folder / f"{name}.qemu").open("ab") as log:
            self.machines[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self.inside(*words)], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, env=environment,
            )  # fmt: skip

    @staticmethod
    def _vnet(device: str) -> tuple[str, ...]:
        return ("vnet_hdr",) if device.startswith(("virtio", "vmxnet3", "e1000e")) else ()

    def _link_of(self, end: str) -> int:
        return next(index for index, link in enumerate(self.links) if end in link)

    def wait(self, *names: str) -> None:
        """Waits until machines can be reached."""
        until = time.monotonic() + _BOOT_S
        for name in names:
            while True:
                if (code := self.machines[name].poll()) is not None:
                    raise LabError(
                        f"QEMU of `{name}` ended with {code}: {(self.folder / f'{name}.qemu').read_text()}"
                    )
                with contextlib.suppress(LabError):
                    self.on(name, "true")
                    break
                if time.monotonic() > until:
                    raise LabError(f"`{name}` cannot be reached; see {self.folder / f'{name}.console'}")
                time.sleep(0.2)

    def qmp(self, name: str, command: str, /, **arguments: Any) -> None:
        """A command to QEMU, for example `system_reset`, which is the loss of power of a host."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.folder / f"{name}.qmp"))
            with connection.makefile("rwb") as stream:
                stream.readline()
                for order in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                    stream.write(json.dumps(order).encode() + b"\n")
                    stream.flush()
                    while "event" in (answer := json.loads(stream.readline())):
                        pass
                    if "return" not in answer:
                        raise LabError(f"{command}: {answer}")

    def stop(self, *names: str) -> None:
        """Ends machines at once."""
        for name in names:
            machine = self.machines.pop(name)
            machine.send_signal(signal.SIGKILL)
            machine.wait()

    def close(self) -> None:
        """Ends everything that was started."""
        self.stop(*self.machines)
        if self.holder is not None:
            self.holder.kill()
            self.holder.wait()
            if self.holder.stdout is not None:
                self.holder.stdout.close()
            self.holder = None


@contextlib.contextmanager
def lab(
    folder: Path, image: Image, guests: Sequence[Guest], links: Sequence[tuple[str, str]], kernel: Kernel
) -> Iterator[Lab]:
    """A lab whose machines can be reached."""
    made = Lab(folder, image, tuple(guests), tuple(links))
    try:
        made.open()
        for guest in guests:
            made.start(guest.name, kernel)
        made.wait(*(guest.name for guest in guests))
        yield made
    finally:
        made.close()
