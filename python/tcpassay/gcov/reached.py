"""The kernel code that the runs of a result folder reached, together and by case."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from tcpassay.errors import Place, UserError
from tcpassay.gcov.catalogue import KINDS, Bits, Catalogue, File, Kind
from tcpassay.result_format import RunRow

FOLDER: Final = "coverage"
"""The folder in a result folder with the catalogue of each kernel that has counters."""
TCP: Final = tuple(f"net/ipv4/tcp_{name}.c" for name in ("input", "output", "timer", "recovery"))
"""The files for which the project has a target."""


def file_of(substrate: str) -> str:
    """The name of the file with the catalogue of a substrate in a result folder."""
    return f"{FOLDER}/{substrate.partition(':')[2] or substrate}.json"


@dataclass(frozen=True, slots=True)
class CaseReach:
    """The code that a case reached with all its seeds."""

    case: str
    label: str
    """The values of the plan's factors, or the script."""
    bits: Bits
    new: Bits
    """The code that no earlier case reached."""


@dataclass(frozen=True)
class Reach:
    """The code that runs reached."""

    name: str
    """The plan or the result folder."""
    substrate: str
    catalogue: Catalogue
    cases: tuple[CaseReach, ...]
    runs: tuple[Bits, ...]
    """The code that each run reached."""
    uncounted: int = 0
    """Runs that ended without counters."""

    @cached_property
    def bits(self) -> Bits:
        """The code that at least one run reached."""
        made = 0
        for one in self.runs:
            made |= one
        return made

    def amounts(self, file: File, kind: Kind) -> tuple[int, int]:
        """The number of reached functions, lines or branches of a file, and the number of all."""
        return (self.bits & self.catalogue.mask(file, kind)).bit_count(), file.amount(kind)

    def total(self, kind: Kind, bits: Bits | None = None) -> int:
        """The number of functions, lines or branches of all files in `bits`; by default in the reached ones."""
        return ((self.bits if bits is None else bits) & self.catalogue.of_kind(kind)).bit_count()

    def unreached(self, file: File) -> list[int]:
        """The lines of a file that no run reached, ascending."""
        left = self.catalogue.mask(file, "lines") & ~self.bits
        return [file.lines[place] for place in self.catalogue.numbers(left, file, "lines")]

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {
            "format": 1,
            "name": self.name,
            "substrate": self.substrate,
            "runs": len(self.runs),
            "uncounted": self.uncounted,
            "files": [
                {"file": file.name}
                | {
                    kind: dict(zip(("reached", "of"), self.amounts(file, kind), strict=True))
                    for kind in KINDS
                }
                | {"unreached": self.unreached(file)}
                for file in self.catalogue.files
            ],
            "cases": [
                {"case": one.case, "label": one.label}
                | {kind: self.total(kind, one.bits) for kind in KINDS}
                | {f"new_{kind}": self.total(kind, one.new) for kind in KINDS}
                for one in self.cases
            ],
        }


def groups(catalogue: Catalogue) -> Iterator[tuple[str, list[File]]]:
    """The rows of a table: each file, TCP's main files together, and all files."""
    for file in catalogue.files:
        if any(file.amount(kind) for kind in KINDS):
            yield file.name.removeprefix("net/"), [file]
    yield "tcp_{input,output,timer,recovery}", catalogue.named(TCP)
    yield "all files", list(catalogue.files)


def sums(reach: Reach, files: Iterable[File], kind: Kind) -> tuple[int, int]:
    """The number of reached functions, lines or branches of some files, and the number of all."""
    amounts = [reach.amounts(file, kind) for file in files]
    return sum(some for some, _ in amounts), sum(all_ for _, all_ in amounts)


def reach_of(folder: Path, runs: Sequence[RunRow], name: str) -> list[Reach]:
    """The code that the runs of a result folder reached on each kernel with counters. Raises `UserError`."""
    substrates = dict.fromkeys(str(run.get("substrate")) for run in runs if run.get("covered"))
    return [
        _reach(folder, [run for run in runs if run.get("substrate") == one], name, one) for one in substrates
    ]


def require(folder: Path, runs: Sequence[RunRow], name: str) -> Reach:
    """The same for the only kernel with counters. Raises `UserError` if there is none, or several."""
    found = reach_of(folder, runs, name)
    if not found:
        raise UserError(
            "none of the runs was made on a kernel with counters: `tcpassay kernel build --coverage` builds one, and "
            "`tcpassay kernel coverage PLAN` runs a plan on it",
            Place(folder),
        )
    if len(found) > 1:
        names = ", ".join(one.substrate for one in found)
        raise UserError(f"the runs were made on several kernels with counters: {names}", Place(folder))
    return found[0]


def _reach(folder: Path, runs: Sequence[RunRow], name: str, substrate: str) -> Reach:
    catalogue = Catalogue.read(folder / file_of(substrate))
    by_case: dict[str, Bits] = {}
    labels: dict[str, str] = {}
    all_: list[Bits] = []
    for run in runs:
        text = run.get("covered")
        if text:
            bits = catalogue.decode(text)
            all_.append(bits)
            by_case[run["case"]] = by_case.get(run["case"], 0) | bits
            labels.setdefault(run["case"], _label(run))
    cases, before = [], 0
    for case, bits in by_case.items():
        cases.append(CaseReach(case, labels[case], bits, bits & ~before))
        before |= bits
    return Reach(name, substrate, catalogue, tuple(cases), tuple(all_), len(runs) - len(all_))


def _label(run: RunRow) -> str:
    if script := run.get("script"):
        return script["file"]
    said = {key: value for key, value in (run.get("varied") or {}).items() if key != "substrate"}
    return ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in said.items())
