"""The disk and the kernels of the virtual machines, made of Debian's packages."""

import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KERNELS: Final = ("linux-image-6.1.0-[0-9]+-amd64", "linux-image-6[.]12[.][0-9]+[+]deb12-amd64")
"""The packages of the two kernels; of each pattern the newest one."""
PACKAGES: Final = ("openssh-server", "sudo", "iproute2", "ethtool", "kmod", "procps")
SUITE: Final = "bookworm"
_TOOLS: Final = {
    "qemu-system-x86_64": "qemu-system-x86",
    "debootstrap": "debootstrap",
    "mke2fs": "e2fsprogs",
    "dpkg-deb": "dpkg",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
}
"""Programs and their packages in Debian."""
_MODULES: Final = (
    "kernel/net", "kernel/crypto", "kernel/lib", "kernel/fs/ext4", "kernel/fs/jbd2", "kernel/fs/mbcache.ko",
    "kernel/arch/x86/crypto", "kernel/drivers/virtio", "kernel/drivers/block/virtio_blk.ko", "kernel/drivers/ptp",
    "kernel/drivers/pps", "kernel/drivers/char/hw_random", "kernel/drivers/net/ethernet/intel/e1000",
    "kernel/drivers/net/ethernet/intel/e1000e", "kernel/drivers/net/vmxnet3",
    *(f"kernel/drivers/net/{name}.ko" for name in
      ("virtio_net", "net_failover", "macvlan", "veth", "ifb", "dummy", "bonding/bonding")),
    "kernel/net/core/failover.ko",
)  # fmt: skip
"""What the disk has of the modules of a kernel."""
_BOOT: Final = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")
"""The modules that find the disk, and those that they need."""
_DISK_MB: Final = 900

_START: Final = """#!/bin/sh
# The first process of a machine runs this at its boot.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tracefs tracefs /sys/kernel/tracing
mount -t tmpfs -o mode=755 run /run
mkdir -p /dev/pts /run/sshd
mount -t devpts devpts /dev/pts
modprobe -a virtio_net e1000 e1000e vmxnet3
# An interface has its name from the last byte of its address: 0 is for the controller, the others are for tests.
for device in /sys/class/net/eth*; do
    read -r address < "$device/address"
    number=${address##*:0}
    name=test$number
    [ "$number" != 0 ] || name=mgmt0
    ip link set "${device##*/}" name "$name"
done
for word in $(cat /proc/cmdline); do
    case $word in
        lab.name=*) hostname "${word#*=}" ;;
        lab.address=*) ip addr add "${word#*=}" dev mgmt0 ;;
    esac
done
ip link set lo up
ip link set mgmt0 up
"""
_INITTAB: Final = """::sysinit:/usr/local/sbin/lab-start
::respawn:/usr/sbin/sshd -D
::ctrlaltdel:/usr/local/sbin/reboot
"""
_INIT: Final = """#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t proc proc /proc
for module in $(/bin/busybox cat /modules/order); do /bin/busybox insmod /modules/$module; done
until [ -b /dev/vda ]; do /bin/busybox sleep 0.05; done
/bin/busybox mount -t ext4 -o rw /dev/vda /root
exec /bin/busybox switch_root /root /usr/local/sbin/init
"""


class LackingError(Exception):
    """Something that the machine does not have."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of the virtual machines."""

    release: str
    image: Path
    initramfs: Path


@dataclass(frozen=True)
class Image:
    """The disk, which no machine changes, and what is needed to log in."""

    disk: Path
    kernels: tuple[Kernel, ...]
    key: Path
    host_key: str


def lacking() -> list[str]:
    """What this machine lacks for virtual machines."""
    found = [
        f"the program `{name}` (Debian's package {package})"
        for name, package in _TOOLS.items()
        if shutil.which(name) is None
    ]
    if os.geteuid() != 0:
        found.append("root rights, for debootstrap, network namespaces and tap devices")
    if not Path("/dev/net/tun").exists():
        found.append("/dev/net/tun (CONFIG_TUN)")
    return found


def build(folder: Path) -> Image:
    """The image of a folder, which is made if it is not there. Needs Debian's packages."""
    if found := lacking():
        raise LackingError("; ".join(found))
    folder.mkdir(parents=True, exist_ok=True)
    complete = folder / "complete"
    if not complete.exists():
        for old in folder.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        _make(folder)
        complete.touch()
    kernels = tuple(
        Kernel(
            image.name.removeprefix("vmlinuz-"), image, folder / image.name.replace("vmlinuz", "initramfs")
        )
        for image in sorted(folder.glob("vmlinuz-*"), key=lambda path: _numbers(path.name))
    )
    host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    return Image(folder / "disk", kernels, folder / "key", host_key)


def _run(*words: str | Path, folder: Path | None = None) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-1000:]
        raise LackingError(f"`{' '.join(map(str, words))}` ended with {done.returncode}: {said}")
    return done.stdout


def _numbers(name: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"[0-9]+", name)]


def _fetch(folder: Path, pattern: str) -> Path:
    """The contents of the newest package whose name has a pattern."""
    names = [
        line.split()[0] for line in _run("apt-cache", "search", "--names-only", f"^{pattern}$").splitlines()
    ]
    if not names:
        raise LackingError(f"apt has no package `{pattern}`; `apt-get update` may help")
    name = max(names, key=_numbers)
    packed, into = folder / "packages" / name, folder / "unpacked" / name
    packed.mkdir(parents=True)
    into.mkdir(parents=True)
    _run("apt-get", "download", name, folder=packed)
    (package,) = packed.glob("*.deb")
    _run("dpkg-deb", "--extract", package, into)
    return into


def _make(folder: Path) -> None:
    for name in ("key", "host_key"):
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "testbed", "-f", folder / name)
    busybox = _fetch(folder, "busybox-static") / "bin/busybox"
    root = folder / "root"
    _run("debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, root)
    for pattern in KERNELS:
        unpacked = _fetch(folder, pattern)
        (boot,) = (unpacked / "boot").glob("vmlinuz-*")
        release = boot.name.removeprefix("vmlinuz-")
        shutil.copy(boot, folder / boot.name)
        modules = root / "lib/modules" / release
        _copy_modules(unpacked / "lib/modules" / release, modules)
        _run("chroot", root, "depmod", release)
        (folder / f"initramfs-{release}").write_bytes(_initramfs(busybox, modules))
    _configure(root, folder, busybox)
    with (folder / "disk").open("wb") as disk:
        disk.truncate(_DISK_MB << 20)
    _run("mke2fs", "-q", "-t", "ext4", "-d", root, folder / "disk")
    for name in ("root", "unpacked", "packages"):
        shutil.rmtree(folder / name)


def _copy_modules(source: Path, into: Path) -> None:
    into.mkdir(parents=True)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(source / name, into / name)
    for name in _MODULES:
        for found in (source / name, source / f"{name}.xz"):
            if found.is_dir():
                shutil.copytree(found, into / name, dirs_exist_ok=True)
            elif found.exists():
                place = into / found.relative_to(source)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(found, place)


def _configure(root: Path, folder: Path, busybox: Path) -> None:
    """The names of interfaces, the users and their keys."""
    public = (folder / "key.pub").read_text()
    for name, mode in (("host_key", 0o600), ("host_key.pub", 0o644)):
        target = root / "etc/ssh" / name.replace("host_key", "ssh_host_ed25519_key")
        target.write_bytes((folder / name).read_bytes())
        target.chmod(mode)
    _run("chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", "lab")
    (root / "etc/sudoers.d/lab").write_text("lab ALL=(root) NOPASSWD: ALL\n")
    for home, owner in (("root", 0), ("home/lab", 1000)):
        ssh = root / home / ".ssh"
        ssh.mkdir(mode=0o700, exist_ok=True)
        (ssh / "authorized_keys").write_text(public)
        for one in (ssh, ssh / "authorized_keys"):
            os.chown(one, owner, owner)
    programs = root / "usr/local/sbin"
    shutil.copy(busybox, programs / "busybox")
    for name in ("init", "reboot"):
        (programs / name).symlink_to("busybox")
    start = programs / "lab-start"
    start.write_text(_START)
    start.chmod(0o755)
    (root / "etc/inittab").write_text(_INITTAB)


def _initramfs(busybox: Path, modules: Path) -> bytes:
    """An archive that mounts the disk and starts its init."""
    folders = ("bin", "dev", "proc", "root", "modules")
    entries: list[tuple[str, int, bytes]] = [(name, 0o040755, b"") for name in folders]
    entries.append(("bin/busybox", 0o100755, busybox.read_bytes()))
    entries.append(("init", 0o100755, _INIT.encode()))
    order = []
    for path in _needed(modules):
        content = (modules / path).read_bytes()
        name = Path(path).name.removesuffix(".xz")
        order.append(name)
        entries.append(
            (f"modules/{name}", 0o100644, lzma.decompress(content) if path.endswith(".xz") else content)
        )
    entries.append(("modules/order", 0o100644, "\n".join(order).encode()))
    return _archive(entries)


def _needed(modules: Path) -> list[str]:
    """The modules for the disk, each after those that it needs. A module that is a part of the kernel is left out."""
    needs = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[path] = others.split()
    by_name = {Path(path).name.split(".")[0].replace("-", "_"): path for path in needs}
    order: list[str] = []
    for name in _BOOT:
        if name in by_name:
            # modules.dep names the nearest ones first.
            order += [path for path in [*reversed(needs[by_name[name]]), by_name[name]] if path not in order]
    return order


def _archive(entries: Iterable[tuple[str, int, bytes]]) -> bytes:
    """An archive in the format `newc` of cpio."""
    made = bytearray()

    def pad() -> None:
        made.extend(b"\0" * (-len(made) % 4))

    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], start=1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        made += b"070701" + b"".join(b"%08X" % value for value in fields) + name.encode() + b"\0"
        pad()
        made += content
        pad()
    return bytes(made)
