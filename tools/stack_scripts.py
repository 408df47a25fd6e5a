"""Writes the table of docs/stacks-scripts.md: packetdrill scripts on other TCPs than the model.

    .venv/bin/python tools/stack_scripts.py FOLDER...

runs the scripts of the folders on smoltcp, gVisor, lwIP and PyTCP, which must have been built.
"""

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

from tcpassay.script import batch, files
from tcpassay.script.model import Wanted
from tcpassay.script.results import Result

STACKS: Final = ("smoltcp", "gvisor", "lwip", "pytcp")
PAGE: Final = Path(__file__).parent.parent / "docs" / "stacks-scripts.md"
BEGIN: Final = "<!-- begin of the table -->"
END: Final = "<!-- end of the table -->"
_KINDS: Final = (
    (r"the sysctl", "sysctl"),
    (r"congestion controller|option `cc`", "controller"),
    (r"it has no option", "setting"),
    (r"an ICMP message", "ICMP"),
    (r"the name `|code", "code"),
    (r"socket option|getsockopt|differs from that", "socket option"),
    (r"the system call|with MSG_|shutdown with|fcntl", "call"),
    (r"IPv6", "IPv6"),
    (r"the route|a queue", "interface"),
)
"""What an unsupported script needs, by its reason."""


def reason(result: Result) -> str:
    """The kind of the reason why a script does not pass."""
    if result.status == "unsupported":
        return next((kind for pattern, kind in _KINDS if re.search(pattern, result.reason)), "command")
    if result.status == "time":
        return "time"
    if result.reason.startswith("outbound packet: "):
        return result.reason.removeprefix("outbound packet: ").removesuffix(" differ").split(",")[0]
    if result.reason.startswith("stopped after"):
        return "steps"
    if result.reason.startswith("the stack sent nothing"):
        return "nothing sent"
    return "result of a call" if result.status == "fail" else result.status


def cell(results: list[Result]) -> str:
    """How many scripts of a family pass, and why the others do not."""
    passed = sum(one.status == "pass" for one in results)
    why = Counter(reason(one) for one in results if one.status != "pass")
    said = ", ".join(
        f"{kind} {count}" for kind, count in sorted(why.items(), key=lambda one: (-one[1], one[0]))
    )
    return f"{passed} of {len(results)}" + (f"; {said}" if said else "")


def main() -> None:
    """Runs the scripts and writes the table."""
    folders = [Path(word) for word in sys.argv[1:]]
    columns: list[str] = []
    families: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for stack in STACKS:
        for folder in folders:
            found = files.find([folder])
            for result in batch.run(found, Wanted(None, loose=True, options=(), on=stack)):
                family = f"{folder.name}/{result.file.parent.relative_to(folder)}"
                families[family][stack].append(result)
                families["all"][stack].append(result)
        columns.append(result.profile.split(" (")[0])
    lines = ["| family | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(STACKS)]
    lines += [
        f"| {family} | " + " | ".join(cell(found[stack]) for stack in STACKS) + " |"
        for family, found in sorted(families.items(), key=lambda one: (one[0] == "all", one[0]))
    ]
    page = PAGE.read_text(encoding="utf-8")
    head, tail = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text("\n".join([head + BEGIN, *lines, END + tail]), encoding="utf-8")


if __name__ == "__main__":
    main()
