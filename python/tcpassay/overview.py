"""The commands in groups by task, and the text of `tcpassay --help`.

The module imports nothing that is slow: assembling the application of typer with all commands takes half a second, and
the overview must not.
"""

import os
import shutil
import sys
import textwrap
from dataclasses import dataclass
from typing import Final

COMPLETE: Final = "_TCPASSAY_COMPLETE"
"""The environment variable with which a shell requests completions."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or a group of commands."""

    name: str
    module: str
    """The module of `tcpassay.cli` that contains it."""
    summary: str


GROUPS: Final = {
    "Plans and runs": (
        Command(
            "init", "init", "Write a commented plan to start from: rack, wan, patch, controller, stack, ci"
        ),
        Command("plan", "plan", "Show the cases and the coverage of a plan without running it"),
        Command("run", "run", "Run every case of a plan, check the results, draw its figures"),
        Command("ask", "ask", "Answer which value is best, with as many seeds as that takes"),
        Command("replay", "run", "Repeat one run and compare it byte by byte"),
        Command("params", "lists", "List or search the parameters of plans"),
        Command("metrics", "lists", "List or search the metrics"),
        Command("inspect", "inspect", "List what a plan or result folder needs and would execute"),
    ),
    "Results": (
        Command("report", "report", "Write the results as one HTML file for offline use"),
        Command("table", "table", "Metrics by parameter, host or flow; as text, CSV, Markdown, LaTeX"),
        Command("plot", "plot", "Figures for papers: metrics by parameter, distributions, runs over time"),
        Command("compare", "results", "Decide which of two results, or of several values, is better"),
        Command("log", "recording", "Print the event log of a run"),
        Command("packets", "recording", "Write the packets of a run as pcapng"),
    ),
    "Findings and their causes": (
        Command("judge", "results", "Check recordings or a packet capture against the rules of TCP"),
        Command("oracles", "results", "List these rules with their reasons"),
        Command("explain", "explain", "Show what happened on the connection of a finding"),
        Command("isolate", "isolate", "Find the smallest set of settings that causes a finding or a value"),
        Command("verify", "verify", "Verify that a fix removes what a plan finds, and write a page about it"),
        Command("pairs", "pairs", "Find cases in which a better path gives a worse result"),
        Command("follow", "follow", "Find where a real stack first differs from the model"),
    ),
    "Captures and scripts": (
        Command("rtt", "capture", "Explain the connections of a packet capture, round trip by round trip"),
        Command("identify", "capture", "Say which TCP a packet capture is from"),
        Command("script", "script", "Run packetdrill scripts on the model or on Linux"),
    ),
    "Controllers, stacks, kernels under test": (
        Command("controller", "controller", "Check a congestion controller in Python"),
        Command("stack", "stack", "Other TCPs: list, build, check"),
        Command("kernel", "kernel", "Linux kernels: build, compare, check, bisect"),
    ),
    "Machines": (
        Command("doctor", "doctor", "Show what this machine can run, and what is missing"),
        Command("testbed", "testbed", "Check the hosts of a testbed"),
        Command("limiter", "limiter", "Install a low-latency rate limiter on a network device"),
    ),
    "Documentation, papers, shells": (
        Command("docs", "docs", "Open the documentation in the browser"),
        Command("experiments", "experiments", "Repeat the experiments of papers and compare the numbers"),
        Command("completion", "lists", "Print the completion script for a shell"),
        Command("schema", "lists", "Print the JSON schema of plans, for editors"),
    ),
}
"""The commands by task, in the order of the help text."""
COMMANDS: Final = {one.name: one for group in GROUPS.values() for one in group}
FIRST: Final = (
    ("tcpassay init wan", "write a commented plan, wan.toml"),
    ("tcpassay run wan.toml", "run it; results in results/wan"),
    ("tcpassay report results/wan --open", "see all of them"),
    ("tcpassay judge capture.pcap", "check a packet capture of your own"),
)
"""First calls, with their meaning."""
_WIDEST: Final = 100
_NARROWEST: Final = 20
"""A meaning with less room than this is below its command."""


def is_asked(arguments: list[str]) -> bool:
    """Whether the arguments of the command ask for the overview."""
    return arguments in ([], ["--help"], ["-h"]) and COMPLETE not in os.environ


def text(width: int, *, styled: bool) -> str:
    """The overview, wrapped at `width` columns; `styled` with bold titles for a terminal."""

    def bold(words: str) -> str:
        return f"\x1b[1m{words}\x1b[0m" if styled else words

    def rows(pairs: list[tuple[str, str]], column: int) -> list[str]:
        made = []
        beside = width - column >= _NARROWEST
        column = column if beside else 6
        for name, words in pairs:
            lines = textwrap.wrap(words, width - column)
            if not beside:
                made.append(f"  {bold(name)}")
                lines.insert(0, "")
            else:
                made.append(f"  {bold(name)}{' ' * (column - 2 - len(name))}{lines[0]}")
            made += [" " * column + line for line in lines[1:]]
        return made

    lines = [
        f"{bold('Usage:')} tcpassay COMMAND ...",
        "",
        *textwrap.wrap(
            "Test TCP implementations: run plans, judge and explain the results, compare them.", width
        ),
        "",
        bold("First steps"),
        *rows(list(FIRST), max(len(name) for name, _ in FIRST) + 4),
    ]
    column = max(map(len, COMMANDS)) + 4
    for title, commands in GROUPS.items():
        lines += ["", bold(title), *rows([(one.name, one.summary) for one in commands], column)]
    lines += ["", *textwrap.wrap("`tcpassay COMMAND --help` shows its options and an example.", width)]
    lines += textwrap.wrap(
        "Exit code 0: all is well; 1: a check failed or a finding is an error; 2: an error in the input; 3: undecided; "
        "70: a bug of tcpassay; 130: interrupted.",
        width,
    )
    return "\n".join(lines) + "\n"


def show() -> None:
    """Prints the overview to standard output."""
    terminal = sys.stdout.isatty()
    width = min(shutil.get_terminal_size((_WIDEST, 24)).columns, _WIDEST)
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    sys.stdout.write(text(max(width, 40), styled=terminal and not plain))
