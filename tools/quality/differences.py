"""What `tcpassay follow` finds of an old bug of Linux, from recordings with packets. Nothing is run.

An end is counted if it has a first difference, and the model follows the same end of the same case further, or to its
end, on the kernel without the bug.

* *alone*: the cause of the difference (what differs, and the kind of the model's reason) is one that no end of any run
  of the plan has on the kernel without the bug, or is so frequent that it has a probability below `CHANCE` with its
  share there (binomial). A list of causes with their shares is all that a user needs to recognise it.
* *beside*: the other ends: only the same case on the plain kernel shows that they are new.
* *named*: of the ends found alone, those whose reason names a function that the patch changes, or a caller of one.
"""

import re
from collections import Counter
from math import comb
from pathlib import Path
from typing import Any

from bugs import Bug

from tcpassay.following import Followed, FollowedEnd, compare

CHANCE = 0.001
"""The probability below which the number of ends with a known cause is not chance."""
MOST = 4
"""Causes that are told of a bug."""
_FILES = (
    "net/ipv4/tcp*.[ch]",
    "net/ipv4/inet_connection_sock.c",
    "net/sched/sch_*.c",
    "include/net/tcp*.h",
    "include/net/codel*.h",
    "include/net/inet_connection_sock.h",
)
_NAMED = re.compile(r"(\w+)\(")
_HEAD = re.compile(r"[A-Za-z_\t][^;]*$")
_HUNK = re.compile(r"@@ -(\d+)")


def bodies(text: str) -> list[tuple[str, int, int]]:
    """The functions of a C file in the style of the kernel: name, first and last line, from 1."""
    lines, found, start = text.splitlines(), [], 0
    for number, line in enumerate(lines):
        if line == "{":
            start = number
        elif line == "}" and start:
            head = start
            while head > 0 and _HEAD.match(lines[head - 1]):
                head -= 1
            if named := _NAMED.search(" ".join(lines[head:start])):
                found.append((named[1], head + 1, number + 1))
            start = 0
    return found


def functions(bug: Bug, tree: Path) -> tuple[set[str], set[str]]:
    """The functions that a patch changes, and those that call them, directly or as an operation. `tree`: 6.1."""
    texts = {
        str(file.relative_to(tree)): _plain(file, tree) for pattern in _FILES for file in tree.glob(pattern)
    }
    changed = {
        name
        for file, line in _changed(bug)
        for name, first, last in bodies(texts[file])
        if first <= line <= last
    }
    calls = {
        member
        for text in texts.values()
        for name in changed
        for member in [name, *re.findall(rf"\.(\w+)\s*=\s*{name}\b", text)]
    }
    callers = {
        name
        for text in texts.values()
        for lines in [text.splitlines()]
        for name, first, last in bodies(text)
        if calls & set(_NAMED.findall("\n".join(lines[first:last])))
    }
    return changed, callers - changed


def _plain(file: Path, tree: Path) -> str:
    """A file without the patches of the last build, which keeps what it changed."""
    kept = tree.parent / "pristine" / file.relative_to(tree)
    return (kept if kept.exists() else file).read_text(encoding="utf-8", errors="replace")


def _changed(bug: Bug) -> list[tuple[str, int]]:
    """The lines of the source that a patch removes, and those after which it inserts."""
    made, file, line = [], "", 0
    for text in bug.patch.text.splitlines():
        if text.startswith("--- a/"):
            file, line = text.removeprefix("--- a/").split("\t")[0], 0
        elif hunk := _HUNK.match(text):
            line = int(hunk[1])
        elif line and not text.startswith("+++"):
            if text[:1] in {"+", "-"}:
                made.append((file, line))
            line += not text.startswith("+")
    return made


def told(plain: Followed, faulty: Followed, names: set[str], ends: int) -> dict[str, Any]:
    """What following finds of a bug whose patch concerns these functions: numbers of ends, and the causes.

    `ends`: those of all cases that ran; `faulty` has the cases whose packets differ.
    """
    count = Counter(one.first.cause for one in faulty.ends if one.first is not None)
    shares = {cause.cause: cause.count / len(plain.ends) for cause in plain.causes}
    known = {cause for cause, share in shares.items() if chance(count[cause], ends, share) >= CHANCE}
    compared = compare(plain, faulty)
    new = [one for one in [*compared.new, *compared.earlier] if one.first is not None]
    alone = [one for one in new if one.first is not None and one.first.cause not in known]
    named = [one for one in alone if _words(one) & names]
    reasons = Counter(_reason(one) for one in alone or new)
    return {
        "ends": ends,
        "alone": len(alone),
        "named": len(named),
        "beside": len(new) - len(alone),
        "beside_named": sum(bool(_words(one) & names) for one in new) - len(named),
        "causes": dict(reasons.most_common(MOST)),
    }


def chance(count: int, of: int, share: float) -> float:
    """The probability of at least `count` among `of` if each has this probability (the binomial distribution)."""
    return sum(comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(count, of + 1))


def _words(end: FollowedEnd) -> set[str]:
    return set(re.findall(r"\w+", f"{end.first.why} {end.first.source}")) if end.first else set()


def _reason(end: FollowedEnd) -> str:
    first = end.first
    return "" if first is None else first.cause + (f" ({first.source})" if first.source else "")
