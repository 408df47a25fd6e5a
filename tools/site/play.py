"""Runs the commands of a page and puts their true output into it: `python tools/site/play.py PAGE...`.

A block of the language `console` has commands after `$ `, each followed by what it prints. A line `...` stands for
lines that are left out: as many as are before and after it are shown. A block after a line that ends with a file name
in backquotes and a colon is that file. The commands of a page run one after another in one folder, which begins with
the files of docs/examples. Figures that they draw replace those of the page.

    python tools/site/play.py README.md docs/start.md
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Final

from tcpassay import scratch

REPOSITORY: Final = Path(__file__).parents[2]
BLOCK: Final = re.compile(r"^```(?P<kind>[a-z]+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE: Final = re.compile(r"`(?P<name>[\w.-]+\.\w+)`[^`\n]*:\n\n\Z")
VARYING: Final = re.compile(
    r"\d[\d.]* m?s of CPU|built (?:before|in [\d.]+ s)|\S+/kernels/|^Checked with tcpassay [\d.]+"
)
"""What differs from run to run."""

WIDTH: Final = 100
OMITTED: Final = "..."
WRONG: Final = {2, 70, 126, 127}
"""Exit codes that no documented command has: an error in the input, a bug, a missing program."""


def play(text: str, folder: Path) -> str:
    """Returns the page with the output that its commands have in `folder`, where its files are written."""
    pieces, end = [], 0
    for block in BLOCK.finditer(text):
        before = text[end : block.start()]
        named = FILE.search(text[: block.start()])
        body = block["body"]
        if block["kind"] == "console":
            body = "".join(
                _played(one, folder) for one in re.split(r"^(?=\$ )", body, flags=re.MULTILINE) if one
            )
        elif named:
            (folder / named["name"]).write_text(body, encoding="utf-8")
        pieces += [before, f"```{block['kind']}\n{body}```"]
        end = block.end()
    return "".join([*pieces, text[end:]])


def _played(one: str, folder: Path) -> str:
    """Returns a command with its output. Lines that differ only in what varies stay as they are."""
    command, *told = one.removeprefix("$ ").splitlines()
    while command.endswith("\\"):
        command += "\n" + told.pop(0)
    printed = output(command, folder)
    if OMITTED in told:
        begin = told.index(OMITTED)
        after = len(told) - begin - 1
        printed = [*printed[:begin], OMITTED, *printed[len(printed) - after :]]
    kept = [
        old if VARYING.sub("", old) == VARYING.sub("", new) else new
        for old, new in zip([*told, *[""] * len(printed)], printed, strict=False)
    ]
    return "\n".join([f"$ {command}", *kept]) + "\n"


def output(command: str, folder: Path) -> list[str]:
    """Returns the lines that a command prints for a terminal of 100 columns. Raises `SystemExit` if it fails."""
    programs = folder / ".bin"
    if not programs.exists():
        programs.mkdir()
        program = programs / "tcpassay"
        program.write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tcpassay "$@"\n', encoding="utf-8"
        )
        program.chmod(0o755)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
    errors: list[bytes] = []
    reader = threading.Thread(target=_read, args=(ours, errors))
    reader.start()
    done = subprocess.run(  # noqa: S603 - the pages are the own ones
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "TERM": "dumb", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    if done.returncode in WRONG:
        raise SystemExit(f"`{command}`: exit code {done.returncode}\n{b''.join(errors).decode()}")
    return [line.rstrip() for line in done.stdout.rstrip().splitlines()]


def _read(terminal: int, into: list[bytes]) -> None:
    while True:
        try:
            some = os.read(terminal, 4096)
        except OSError:  # the other side is closed
            return
        if not some:
            return
        into.append(some)


def prepared(folder: Path) -> Path:
    """Returns the folder with the files of docs/examples and the patch of the tests, which has Linux's licence."""
    page = Path(shutil.copytree(REPOSITORY / "docs" / "examples", folder / "page"))
    shutil.copy(REPOSITORY / "tests" / "kernel" / "patches" / "ack-every-third.patch", page)
    return page


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name)
        with scratch.folder() as made:
            folder = prepared(Path(made))
            text = play(page.read_text(encoding="utf-8"), folder)
            page.write_text(text, encoding="utf-8")
            for figure in re.findall(r"\]\((img/[\w.-]+)\)", text):
                if (drawn := folder / Path(figure).name).is_file():
                    shutil.copy(drawn, page.parent / figure)
