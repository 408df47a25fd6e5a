"""Pairing of the runs of two results: runs that differ only in the compared parameters.

The two results may be of one plan with two versions, or of two plans that differ in a controller or a profile. A
parameter with one constant value on one side and another constant value on the other side is a compared parameter and
is ignored for pairing.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tcpassay.errors import Place, UserError
from tcpassay.result_format import RunRow
from tcpassay.results import Results, as_text

SUBSTRATE: Final = "substrate"
"""The substrate of a run.

Pairs consist of runs on the same substrate, or on two substrates that distinguish the sides.
"""

Where = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sides:
    """The compared parts of two results."""

    where_a: Where = field(default_factory=dict)
    """Parameters and values that select runs of the first side."""
    where_b: Where = field(default_factory=dict)
    ignore: frozenset[str] = frozenset()
    """Parameters that are ignored for pairing."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs that differ only in the compared parameters."""

    a: RunRow
    b: RunRow


@dataclass(frozen=True, slots=True)
class Pairing:
    """The runs of two results."""

    pairs: list[Pair]
    only_a: list[RunRow]
    only_b: list[RunRow]
    compared: dict[str, tuple[str | None, str | None]]
    """Parameters that distinguish the sides, with the value of each side; `None` is the default."""


def pair(a: Results, b: Results, sides: Sides) -> Pairing:
    """Pairs the runs of two results, or of two parts of one. Raises `UserError` if this is impossible."""
    left, right = _select(a, sides.where_a), _select(b, sides.where_b)
    compared = _compared(left, right)
    apart = set(compared) | sides.ignore
    numbers: Numbers = {}
    by_a, by_b = _keyed(a, left, apart, numbers), _keyed(b, right, apart, numbers)
    pairs = [Pair(run, by_b[key]) for key, run in by_a.items() if key in by_b]
    if not pairs:
        message = (
            f"no run of {a.folder} has a partner in {b.folder}: a partner has the same seed and the same parameters"
            f"{f', but for {_listed(apart)}' if apart else ''}; name parameters that do not count with --ignore"
        )
        raise UserError(message, Place(b.folder))
    only_a = [run for key, run in by_a.items() if key not in by_b]
    only_b = [run for key, run in by_b.items() if key not in by_a]
    return Pairing(pairs, only_a, only_b, compared)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _triples(run: RunRow) -> dict[str, str]:
    """The settings of a run as texts. They are made when they are needed: those of 100,000 runs need 300 MB."""
    said = {name: str(as_text(value)) for name, value in (run.get("triples") or {}).items()}
    return {SUBSTRATE: str(run.get("substrate") or "model")} | said


def _select(results: Results, where: Where) -> list[RunRow]:
    if not where:
        chosen = results.runs
    else:
        chosen = [run for run in results.runs if where.items() <= {**_triples(run), **_varied(run)}.items()]
    if not chosen:
        said = ", ".join(f"{name}={value}" for name, value in where.items())
        raise UserError(f"there is no run{f' with {said}' if said else ''}", Place(results.folder))
    return chosen


def _varied(run: RunRow) -> dict[str, str]:
    return {name: str(as_text(value)) for name, value in (run.get("varied") or {}).items()}


def _compared(left: list[RunRow], right: list[RunRow]) -> dict[str, tuple[str | None, str | None]]:
    of_a, of_b = _constant(left), _constant(right)
    both = {name: (of_a.get(name, (None,)), of_b.get(name, (None,))) for name in of_a | of_b}
    return {name: (a[0], b[0]) for name, (a, b) in both.items() if len(a) == len(b) == 1 and a != b}


def _constant(runs: list[RunRow]) -> dict[str, tuple[str | None, ...]]:
    """The value of each parameter; no value if it is not the same in all runs."""
    values: dict[str, str] = {}
    runs_of: dict[str, int] = {}
    vary: set[str] = set()
    for run in runs:
        for name, value in _triples(run).items():
            runs_of[name] = runs_of.get(name, 0) + 1
            if values.setdefault(name, value) != value:
                vary.add(name)
    return {
        name: () if name in vary or runs_of[name] < len(runs) else (value,) for name, value in values.items()
    }


Key = tuple[bytes, int]
"""The settings of a run as sorted numbers (`Numbers`), and its seed."""
Numbers = dict[tuple[str, str], int]
"""A number for each setting; a set of settings would need ten times the memory of their numbers."""


def _keyed(results: Results, runs: list[RunRow], apart: set[str], numbers: Numbers) -> dict[Key, RunRow]:
    keyed: dict[Key, RunRow] = {}
    for run in runs:
        settings = [
            numbers.setdefault(item, len(numbers)) for item in _triples(run).items() if item[0] not in apart
        ]
        key = (array("L", sorted(settings)).tobytes(), int(run["seed"]))
        if key in keyed:
            message = (
                f"cases `{keyed[key]['case']}` and `{run['case']}` differ only in {_listed(apart)}, which does not "
                "count in pairing; select one of them with --where-a or --where-b"
            )
            raise UserError(message, Place(results.folder))
        keyed[key] = run
    return keyed
