"""The tables of docs/kernel-coverage-measured.md, from the results of `tcpassay kernel coverage`.

    .venv/bin/python tools/kernel_coverage.py 'make demo=results/demo-coverage' 'scripts=results/scripts-coverage' ...

All results must be from the same kernel. With --json the numbers of lines that nothing reaches, by file and reason.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_
from pathlib import Path

from tcpassay import results
from tcpassay.gcov import reasons
from tcpassay.gcov.catalogue import Bits, Catalogue, File, Kind
from tcpassay.gcov.reached import TCP, Reach, require
from tcpassay.kernel import store

MAIN = ("tcp_input", "tcp_output", "tcp_timer", "tcp_recovery", "tcp_cong")
CONTROLLERS = (
    "tcp_cubic",
    "tcp_dctcp",
    "tcp_vegas",
    "tcp_bbr",
    "tcp_bic",
    "tcp_westwood",
    "tcp_htcp",
    "tcp_illinois",
)
SHOWN = 40
"""Parts of a file that are listed as not reached, the longest first."""
DEFINED = re.compile(r"[A-Za-z_][^;=]*?(\w+)\(")
"""The first line of the definition of a function in Linux's style."""


def percent(bits: Bits, catalogue: Catalogue, files: Sequence[File], kind: Kind) -> str:
    """The share of the lines or branches of some files."""
    all_ = sum(file.amount(kind) for file in files)
    some = sum((bits & catalogue.mask(file, kind)).bit_count() for file in files)
    return f"{100 * some / all_:.0f} %" if all_ else "-"


def ranges(lines: Sequence[int], known: Sequence[int]) -> list[tuple[int, int]]:
    """Lines as ranges; lines without code between two of them do not end a range."""
    place = {line: n for n, line in enumerate(known)}
    made: list[tuple[int, int]] = []
    for line in lines:
        if made and place[line] == place[made[-1][1]] + 1:
            made[-1] = (made[-1][0], line)
        else:
            made.append((line, line))
    return made


def enclosing(source: Sequence[str], line: int) -> str:
    """The name of the function around a line: gcov knows no function that is inlined everywhere."""
    found = (DEFINED.match(text) for text in reversed(source[:line]))
    return next((one[1] for one in found if one), "?")


class Document:
    """All results together."""

    def __init__(self, reaches: dict[str, Reach]) -> None:
        self.reaches = reaches
        self.catalogue = next(iter(reaches.values())).catalogue
        if any(one.catalogue.digest != self.catalogue.digest for one in reaches.values()):
            sys.exit("the results are from different builds of the kernel")
        self.all = reduce(or_, (one.bits for one in reaches.values()))
        substrate = next(iter(reaches.values())).substrate
        notes = store.find(substrate.partition(":")[2]).notes
        if notes is None:
            sys.exit(f"{substrate} has no counters")
        self.notes = notes

    def files(self, names: Sequence[str]) -> list[File]:
        """The files with these names in net/ipv4, in this order."""
        wanted = [f"net/ipv4/{name}.c" for name in names]
        return sorted(self.catalogue.named(wanted), key=lambda file: wanted.index(file.name))

    def source(self, file: File) -> list[str]:
        """The text of a file by line."""
        return (self.notes / file.name).read_text(encoding="utf-8").splitlines()

    def unreached(self, file: File) -> list[int]:
        """The lines of a file that no run reached."""
        left = self.catalogue.mask(file, "lines") & ~self.all
        return [file.lines[place] for place in self.catalogue.numbers(left, file, "lines")]

    def plans(self) -> Iterator[str]:
        """What each of the results reached of the main files: lines, branches."""
        yield f"| what was run | cases | runs | {' | '.join(MAIN)} | controllers | queues |"
        yield "| --- " * (len(MAIN) + 5) + "|"
        controllers = [
            file
            for file in self.catalogue.files
            if file.name.removeprefix("net/ipv4/").removesuffix(".c") in CONTROLLERS
        ]
        queues = [file for file in self.catalogue.files if file.name.startswith("net/sched/")]
        rows = {**{name: one.bits for name, one in self.reaches.items()}, "**all together**": self.all}
        for name, bits in rows.items():
            one = self.reaches.get(name)
            counts = [f"{len(one.cases):,}", f"{len(one.runs):,}"] if one else ["", ""]
            groups = [*([file] for file in self.files(MAIN)), controllers, queues]
            cells = [
                f"{percent(bits, self.catalogue, files, 'lines')}, {percent(bits, self.catalogue, files, 'branches')}"
                for files in groups
            ]
            yield f"| {name} | {' | '.join([*counts, *cells])} |"

    def all_files(self) -> Iterator[str]:
        """What all results together reached of each file."""
        yield "| file | lines | branches | functions |"
        yield "| --- | --- | --- | --- |"
        for file in self.catalogue.files:
            if file.lines:
                cells = [
                    f"{(self.all & self.catalogue.mask(file, kind)).bit_count()} of {file.amount(kind)} "
                    f"({percent(self.all, self.catalogue, [file], kind)})"
                    for kind in ("lines", "branches", "functions")
                ]
                yield f"| {file.name} | {' | '.join(cells)} |"

    def by_reason(self) -> dict[str, dict[str, list[int]]]:
        """The unreached lines of the main files by reason."""
        return {
            file.name: {
                one.name: list(one.lines)
                for one in reasons.group(file, self.source(file), self.unreached(file))
            }
            for file in self.files(MAIN)
        }

    def reason_table(self) -> Iterator[str]:
        """How many lines of each file each reason explains."""
        groups = self.by_reason()
        yield f"| reason | {' | '.join(MAIN)} |"
        yield "| --- " * (len(MAIN) + 1) + "|"
        titles = {rule.name: rule.title for rule in reasons.RULES} | {
            reasons.REACHABLE: "no rule gives a reason: reachable"
        }
        for name, title in titles.items():
            counts = [len(of.get(name, [])) for of in groups.values()]
            if any(counts):
                yield f"| {title} | {' | '.join(map(str, counts))} |"

    def target(self) -> str:
        """The share of the lines within reach that were reached, in a sentence."""
        lines = reached = excluded = 0
        for file in self.catalogue.named(TCP):
            out = set(reasons.out_of_reach(file, self.source(file)))
            missing = set(self.unreached(file))
            inside = set(file.lines) - out
            lines += len(inside)
            reached += len(inside - missing)
            excluded += len(out)
        return (
            f"Of the {lines:,} lines of tcp_input.c, tcp_output.c, tcp_timer.c and tcp_recovery.c that a connection "
            f"without MD5, TCP-AO, repair, MPTCP, SMC and BPF can reach, {reached:,} were reached: "
            f"{100 * reached / lines:.1f} %. {excluded} lines are excluded."
        )

    def reachable(self) -> Iterator[str]:
        """The longest parts of each main file that nothing reached without a reason."""
        for file in self.files(MAIN):
            lines = self.by_reason()[file.name].get(reasons.REACHABLE, [])
            spans = sorted(ranges(lines, file.lines), key=lambda span: (span[0] - span[1], span[0]))[:SHOWN]
            by_function: dict[str, list[str]] = {}
            for first, last in sorted(spans):
                text = str(first) if first == last else f"{first}-{last}"
                function = file.function_of.get(first) or enclosing(self.source(file), first)
                by_function.setdefault(function, []).append(text)
            said = "; ".join(f"`{name}` {', '.join(spans)}" for name, spans in by_function.items())
            yield f"* {file.name}: {said or 'none'}"


def main() -> None:
    """Prints the tables."""
    as_json = "--json" in sys.argv
    reaches = {}
    for word in (word for word in sys.argv[1:] if word != "--json"):
        label, equals, folder = word.partition("=")
        if not equals:
            sys.exit(f"`{word}`: give LABEL=DIR")
        reaches[label] = require(Path(folder), results.load(folder).runs, label)
    if not reaches:
        sys.exit("give LABEL=DIR for each of the results")
    made = Document(reaches)
    if as_json:
        print(json.dumps(made.by_reason(), indent=1))
        return
    for title, lines in (
        ("What each plan reaches", made.plans()),
        ("All files", made.all_files()),
        ("Lines that nothing reaches", made.reason_table()),
        ("Reachable and not reached", made.reachable()),
    ):
        print(f"### {title}\n")
        print("\n".join(lines))
        print()
    print(made.target())


if __name__ == "__main__":
    main()
