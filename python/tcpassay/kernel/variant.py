"""Variants of a kernel: plain, with counters of code coverage, or with the kernel's own checkers.

A variant has further options of the configuration, and a folder of its own for object files beside the same patched
source.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay.kernel.series import Patch

_PATCHES: Final = Path(__file__).parent / "patches"


@dataclass(frozen=True, slots=True)
class Variant:
    """Build options of a kernel, besides its source and patches."""

    name: str
    """Empty for the plain kernel; otherwise the end of the default name of the kernel."""
    config: tuple[str, ...] = ()
    """Options that are switched on if the version and User-Mode Linux have them, without `CONFIG_`."""
    needed: frozenset[str] = frozenset()
    """Options without which the variant cannot be built."""
    make: tuple[str, ...] = ()
    """Further arguments of make."""
    switch: str = ""
    """The variable of `scripts/Makefile.lib` that instruments an object: `<switch>_<object>.o=y`."""
    instrumented: tuple[str, ...] = ()
    """Patterns of the sources that are instrumented."""

    @property
    def folder(self) -> str:
        """The name of the folder with its object files, in the folder of the source."""
        return f"build-{self.name}" if self.name else "build"

    @property
    def lines(self) -> str:
        """Further lines of the configuration."""
        return "".join(f"CONFIG_{one}\n" for one in self.config)

    @property
    def patches(self) -> list[Patch]:
        """Patches of this package that only this variant needs."""
        files = sorted((_PATCHES / self.name).glob("*.patch")) if self.name else []
        return [Patch(file.stem, file.read_text(encoding="utf-8")) for file in files]

    def sources(self, tree: Path) -> list[Path]:
        """The sources of a tree that are instrumented."""
        return sorted(file for pattern in self.instrumented for file in tree.glob(pattern))

    def arguments(self, tree: Path) -> list[str]:
        """Further arguments of make: which objects are instrumented."""
        return [*self.make, *(f"{self.switch}_{file.stem}.o=y" for file in self.sources(tree))]


_TCP_AND_QUEUES: Final = (
    "net/ipv4/tcp*.c",
    "net/ipv4/inet_connection_sock.c",
    "net/ipv4/inet_hashtables.c",
    "net/ipv4/inet_timewait_sock.c",
    "net/ipv4/syncookies.c",
    "net/ipv6/tcp*.c",
    "net/sched/sch_*.c",
)
PLAIN: Final = Variant("")
COVERAGE: Final = Variant(
    "coverage",
    make=("CONFIG_GCOV_KERNEL=y",),
    switch="GCOV_PROFILE",
    instrumented=_TCP_AND_QUEUES,
)
"""Counters for TCP over IPv4 and IPv6 and for the queue disciplines."""

DEBUG: Final = Variant(
    "debug",
    config=(
        "DEBUG_KERNEL=y",
        "KASAN=y",
        "UBSAN=y",
        "UBSAN_BOUNDS=y",
        "UBSAN_SHIFT=y",
        "UBSAN_BOOL=y",
        "UBSAN_ENUM=y",
        "PROVE_LOCKING=y",
        "DEBUG_NET=y",
        "DEBUG_LIST=y",
        "DEBUG_OBJECTS=y",
        "DEBUG_OBJECTS_FREE=y",
        "DEBUG_OBJECTS_TIMERS=y",
        "DEBUG_OBJECTS_WORK=y",
        "DEBUG_OBJECTS_RCU_HEAD=y",
    ),
    # In 6.1 User-Mode Linux has no UBSAN_SANITIZE_ALL; single objects can be checked for undefined behaviour.
    switch="UBSAN_SANITIZE",
    instrumented=_TCP_AND_QUEUES,
)
"""Checkers of memory, undefined behaviour, locks, lists, timers and socket buffers."""


def kernel_name(name: str, variant: Variant) -> str:
    """The default name of a variant of the kernel `name`."""
    end = f"+{variant.name}" if variant.name else ""
    return name[: 64 - len(end)] + end
