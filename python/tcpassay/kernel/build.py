"""Builds a kernel: a patched copy of the source, the configuration of tcpassay, make, and the image in the store."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.kernel import shadow, store
from tcpassay.kernel.source import Debian, Say, Source, run
from tcpassay.kernel.store import Kernel

CONFIG: Final = Path(__file__).with_name("linux.config")
TOOLS: Final = {
    "make": "make", "gcc": "gcc", "flex": "flex", "bison": "bison", "bc": "bc", "patch": "patch", "tar": "tar",
    "xz": "xz-utils",
}  # fmt: skip
"""The programs that a build needs, with Debian's packages."""
# Options that must take effect; others depend on the version.
NEEDED: Final = {
    "UML_TIME_TRAVEL_SUPPORT",
    "STATIC_LINK",
    "HOSTFS",
    "NET_NS",
    "INET",
    "VETH",
    "NET_SCHED",
    "HIGH_RES_TIMERS",
}
_ERROR: Final = re.compile(r": (fatal )?error: |^make.*\*\*\*|^(.*/)?ld: |undefined reference")
_STEP: Final = re.compile(r"^  ([A-Z]\w*) +(?:\[M\] +)?(\S+)")
_MOST_WORDS: Final = 12

Stepped = Callable[[str], None]
"""Called with the name of each file that make has built."""


def missing_tools() -> list[str]:
    """The Debian packages that are missing for a build."""
    return [package for tool, package in TOOLS.items() if shutil.which(tool) is None]


def build(source: Source, name: str, *, jobs: int, say: Say, stepped: Stepped) -> tuple[Kernel, bool]:
    """The kernel of this source, and whether it was built now. Raises `UserError` with the compiler's messages."""
    if missing := missing_tools():
        raise UserError(
            f"to build a kernel here lack: {', '.join(missing)} (Debian: apt-get install {' '.join(missing)})"
        )
    place = store.folder(name)
    place.mkdir(parents=True, exist_ok=True)
    with alone(place):
        before = store.read(name)
        started = time.monotonic()
        if before and isinstance(source, Debian) and before.key == _key(source, before.patches):
            return before, False
        copy = shadow.refresh(source, place, shadow.patches(), say)
        key = _key(source, copy.patches, copy.digest)
        if before and before.key == key:
            return before, False
        (place / "kernel.json").unlink(missing_ok=True)
        absent = _configure(copy.tree, place, say)
        _make(copy.tree, place, jobs, say, stepped)
        shutil.copy2(place / "build" / "linux", place / "linux.new")
        (place / "linux.new").replace(place / "linux")
        release = (place / "build/include/config/kernel.release").read_text(encoding="utf-8").strip()
        kernel = Kernel(
            name=name,
            release=release,
            source=source.words,
            key=key,
            built=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - started, 1),
            patches=copy.patches,
            absent=absent,
        )
        store.write(kernel)
        if isinstance(source, Debian):
            # A package changes only as a whole; a tree changes by file and is recompiled incrementally.
            for part in ("source", "pristine", "build", "manifest.json"):
                _drop(place / part)
    return kernel, True


def _key(source: Source, applied: list[str], digest: str | None = None) -> str:
    parts = [
        source.words if isinstance(source, Debian) else str(digest),
        CONFIG.read_text(encoding="utf-8"),
        *(f"{patch.name}\n{patch.text}" for patch in shadow.patches()),
        *applied,
        run(["gcc", "--version"]).stdout.partition("\n")[0],
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@contextmanager
def alone(place: Path) -> Iterator[None]:
    """Locks the folder of a kernel against other builds. Raises `UserError` if another build is active."""
    with (place / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another process is building the kernel `{place.name}`") from None
        yield


def _make_command(tree: Path, place: Path, *arguments: str) -> list[str]:
    return ["make", "--no-print-directory", "-C", str(tree), "ARCH=um", f"O={place / 'build'}", *arguments]


def _environment() -> dict[str, str]:
    # The same source gives the same image.
    fixed = {
        "KBUILD_BUILD_TIMESTAMP": "1970-01-01",
        "KBUILD_BUILD_USER": "tcpassay",
        "KBUILD_BUILD_HOST": "tcpassay",
    }
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("MAKE", "MFLAGS", "KBUILD", "KCONFIG"))
    }
    return kept | fixed | {"LC_ALL": "C", "ARCH": "um"}


def _configure(tree: Path, place: Path, say: Say) -> list[str]:
    say("configuring")
    (place / "build").mkdir(exist_ok=True)
    command = _make_command(tree, place, f"KCONFIG_ALLCONFIG={CONFIG}", "allnoconfig")
    made = subprocess.run(  # noqa: S603
        command,
        capture_output=True,
        text=True,
        errors="replace",
        env=_environment(),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if made.returncode != 0:
        raise UserError(
            "the kernel cannot be configured:\n"
            + _indented((made.stdout + made.stderr).splitlines()[-_MOST_WORDS:])
        )
    took = set((place / "build" / ".config").read_text(encoding="utf-8").splitlines())
    absent = []
    for line in CONFIG.read_text(encoding="utf-8").splitlines():
        symbol, equals, value = line.removeprefix("CONFIG_").partition("=")
        if equals and value != "n" and line not in took:
            absent.append(symbol)
    if lacking := NEEDED.intersection(absent):
        raise UserError(f"this kernel cannot serve: {', '.join(sorted(lacking))} cannot be switched on in it")
    return absent


def _make(tree: Path, place: Path, jobs: int, say: Say, stepped: Stepped) -> None:
    say("compiling")
    words: deque[str] = deque(maxlen=400)
    with (
        (place / "build.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(  # noqa: S603
            _make_command(tree, place, f"-j{jobs}", "linux"),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            env=_environment(),
            start_new_session=True,
        ) as process,
    ):
        try:
            for line in process.stdout or ():
                log.write(line)
                words.append(line.rstrip())
                if step := _STEP.match(line):
                    stepped(step[2])
        except BaseException:
            os.killpg(process.pid, 15)
            raise
    if process.returncode != 0:
        first = next(
            (at for at, line in enumerate(words) if _ERROR.search(line)), max(0, len(words) - _MOST_WORDS)
        )
        said = _indented(list(words)[first : first + _MOST_WORDS])
        raise UserError(
            f"the kernel does not compile; all that was said is in {place / 'build.log'}:\n{said}"
        )


def _indented(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _drop(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
