"""Reports of a kernel's own checkers in its console ("splats"): warnings, KASAN, UBSAN, lockdep.

Only what was written after init began counts: what comes before does not depend on the case.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

ORACLE: Final = "kernel-splat"
"""The name under which findings are reported."""

_INIT: Final = "as init process"
_STARTS: Final = (
    # include/asm-generic/bug.h, kernel/panic.c: the place in the source follows.
    re.compile(r"WARNING: CPU: \d+ PID: \d+ at (?P<what>\S+ \S+)"),
    # Linux 7: `WARNING: net/ipv4/tcp.c:12 at tcp_ack+0x1/0x2, CPU#0: agent/1`.
    re.compile(r"WARNING: (?P<what>\S+:\d+ at \S+), CPU#\d+"),
    re.compile(
        r"WARNING: (?P<what>possible .*|inconsistent lock state|bad unlock balance detected!|.* nested lock.*)"
    ),
    re.compile(r"WARNING: (?P<what>suspicious RCU usage)"),
    re.compile(r"BUG: (?P<what>KASAN: .*)"),
    re.compile(r"BUG: (?P<what>KFENCE: .*)"),
    re.compile(r"(?P<what>UBSAN: .*)"),
    re.compile(r"BUG: (?P<what>sleeping function called from invalid context at .*)"),
    re.compile(r"BUG: (?P<what>scheduling while atomic|spinlock .*|workqueue .*|using .* in preemptible.*)"),
    re.compile(r"BUG (?P<what>\S+ \([^)]*\): .*)"),
    re.compile(r"(?P<what>list_(?:add|del) corruption.*)"),
    re.compile(r"(?P<what>refcount_t: .*)"),
    re.compile(r"(?P<what>kernel BUG at .*)"),
)
_END: Final = re.compile(r"---\[ end trace|^=+$")
_MOST_LINES: Final = 60
_TREE: Final = re.compile(r"/\S*/source/")
"""The folder of a patched copy of a source (`store.tree`)."""
_NUMBERS: Final = re.compile(r"\+0x[0-9a-f]+/0x[0-9a-f]+|0x[0-9a-f]+|\b[0-9a-f]{8,}\b|/\d+|:\d+\b")
"""Addresses, process numbers and sizes, which differ between runs, and lines, which differ between trees."""


@dataclass(frozen=True, slots=True)
class Splat:
    """A report."""

    title: str
    """The kind and the place, without addresses and numbers: equal for reports of one fault."""
    text: str
    """The lines of the console."""


def splats(console: str) -> list[Splat]:
    """The reports in the console of a guest, each title once."""
    _, _, rest = console.partition(_INIT)
    found: dict[str, Splat] = {}
    for one in _reports(rest.splitlines()):
        found.setdefault(one.title, one)
    return list(found.values())


def _reports(lines: list[str]) -> Iterator[Splat]:
    at = 0
    while at < len(lines):
        what = next((match["what"] for start in _STARTS if (match := start.search(lines[at]))), None)
        if what is None:
            at += 1
            continue
        end = at + 1
        while end < len(lines) and end - at < _MOST_LINES and not _END.search(lines[end]):
            end += 1
        title = " ".join(_NUMBERS.sub("", _TREE.sub("", what)).split())
        yield Splat(title, "\n".join(line.rstrip() for line in lines[at:end]))
        at = end
