"""Which run of one result belongs to which of the other: the one that differs only in what is compared.

Two results may be of one plan on two versions, or of two plans that differ in a controller or a profile. A parameter
that has one value throughout one side and another throughout the other side is what is compared, and does not count.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tcpassay.errors import Place, UserError
from tcpassay.results import Results, as_text

SUBSTRATE: Final = "substrate"
"""Where a run was made; pairs are made of runs of the same substrate, or of two that tell the sides apart."""

Where = Mapping[str, str]
Run = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sides:
    """What of two results is compared."""

    where_a: Where = field(default_factory=dict)
    """Parameters and their values: only such runs of the first."""
    where_b: Where = field(default_factory=dict)
    ignore: frozenset[str] = frozenset()
    """Parameters that do not count when runs are paired."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs that differ only in what is compared."""

    a: Run
    b: Run


@dataclass(frozen=True, slots=True)
class Pairing:
    """The runs of two results."""

    pairs: list[Pair]
    only_a: list[Run]
    only_b: list[Run]
    compared: dict[str, tuple[str | None, str | None]]
    """Parameters that tell the two sides apart, with the value of each; `None` is the default."""


def pair(a: Results, b: Results, sides: Sides) -> Pairing:
    """Pair the runs of two results, or of two parts of one. Raises `UserError` when that cannot be done."""
    left, right = _select(a, sides.where_a), _select(b, sides.where_b)
    compared = _compared(left, right)
    apart = set(compared) | sides.ignore
    by_a, by_b = _keyed(a, left, apart), _keyed(b, right, apart)
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


def _triples(run: Run) -> dict[str, str]:
    said = {name: str(as_text(value)) for name, value in (run.get("triples") or {}).items()}
    return {SUBSTRATE: str(run.get("substrate") or "model")} | said


def _select(results: Results, where: Where) -> list[tuple[Run, dict[str, str]]]:
    runs = [(run, _triples(run)) for run in results.runs]
    chosen = [
        (run, triples)
        for run, triples in runs
        if all({**triples, **_varied(run)}.get(name) == value for name, value in where.items())
    ]
    if not chosen:
        said = ", ".join(f"{name}={value}" for name, value in where.items())
        raise UserError(f"there is no run{f' with {said}' if said else ''}", Place(results.folder))
    return chosen


def _varied(run: Run) -> dict[str, str]:
    return {name: str(as_text(value)) for name, value in (run.get("varied") or {}).items()}


def _compared(
    left: list[tuple[Run, dict[str, str]]], right: list[tuple[Run, dict[str, str]]]
) -> dict[str, tuple[str | None, str | None]]:
    names = dict.fromkeys(name for _, triples in (*left, *right) for name in triples)
    found = {}
    for name in names:
        of_a = {triples.get(name) for _, triples in left}
        of_b = {triples.get(name) for _, triples in right}
        if len(of_a) == len(of_b) == 1 and of_a != of_b:
            found[name] = (of_a.pop(), of_b.pop())
    return found


Key = tuple[frozenset[tuple[str, str]], int]


def _keyed(results: Results, runs: list[tuple[Run, dict[str, str]]], apart: set[str]) -> dict[Key, Run]:
    keyed: dict[Key, Run] = {}
    for run, triples in runs:
        key = (frozenset(item for item in triples.items() if item[0] not in apart), int(run["seed"]))
        if key in keyed:
            message = (
                f"cases `{keyed[key]['case']}` and `{run['case']}` differ only in {_listed(apart)}, which does not "
                "count in pairing; select one of them with --where-a or --where-b"
            )
            raise UserError(message, Place(results.folder))
        keyed[key] = run
    return keyed
