"""The comparison of two results: each metric over all pairs of runs.

Runs on the model and on kernels are deterministic, so that the difference within a pair is exact and has no measurement
error. The interval describes the variation of the effect between cases (and seeds), that is, the effect to be expected
for similar cases. The statistical unit is therefore the case, averaged over its seeds, if there are enough cases for a
test, and otherwise the run.

For each metric, equal pairs are counted and excluded. For the others the test is whether they changed in one direction
(Wilcoxon's signed ranks) and by how much (Hodges and Lehmann's shift, with its interval). If all values are positive,
logarithms are used, so that the effect is a ratio and a case at 1 Mbit/s has the same weight as one at 10 Gbit/s;
otherwise the effect is a difference. Swapping the sides inverts every effect and changes nothing else.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

import numpy as np
import polars as pl

from tcpassay import interface
from tcpassay.compare.definitions import Skipped, skipped, versions
from tcpassay.compare.effect import Effect, Options, Verdict, describe, effects, undecided
from tcpassay.compare.exact import Exact, exact
from tcpassay.compare.family import family, sampled
from tcpassay.compare.pairing import Pair, Pairing, Sides, pair
from tcpassay.compare.signedrank import Reals
from tcpassay.errors import Place, Problem, UserError
from tcpassay.messages import Outcome
from tcpassay.plan.document import suggest
from tcpassay.plural import plural
from tcpassay.result_format import RunRow
from tcpassay.results import METRICS, RESULT, Results, as_text
from tcpassay.run_table import NAME as RUNS

_LISTED: Final = 3


@dataclass(frozen=True, slots=True)
class Change:
    """Findings of one oracle that only one side has, in paired runs."""

    oracle: str
    new: tuple[tuple[str, int], ...]
    """Runs (case and seed of the second side) that have them only on the second side."""
    gone: tuple[tuple[str, int], ...]
    """Runs (case and seed of the first side) that have them only on the first side."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two results."""

    a: str
    b: str
    options: Options
    pairing: Pairing
    effects: tuple[Effect, ...]
    findings: tuple[Change, ...]
    broken: tuple[tuple[str, int, str], ...]
    """Runs that completed on the first side and not on the second: case, seed, outcome."""
    problems: tuple[str, ...] = field(default=())
    """Files that could not be used."""
    exact: Exact | None = None
    """The identical pairs, if both sides are deterministic."""
    skipped: tuple[Skipped, ...] = ()
    """Metrics with different definitions on the two sides."""
    versions: tuple[str, ...] = ()
    """Differences between the versions and the plans of the two results."""
    unfinished: int = 0
    """Number of pairs whose run on the first side has no metrics."""
    repeated: int = 0
    """Number of pairs of seeds in which every run equals that of another seed, because no case has random events."""
    family: str = ""
    """Where the compared metrics come from, in words."""

    @property
    def undecided(self) -> list[str]:
        """The metrics about which these runs cannot decide, with the number of seeds that would; in words."""
        return [undecided(effect) for effect in self.effects if effect.verdict is Verdict.UNDECIDED]

    @property
    def differs(self) -> str:
        """That deterministic runs with the same parameters differ, in words; empty if none does."""
        if self.exact is None or not self.exact.failed:
            return ""
        return (
            f"{len(self.exact.different)} of {plural(len(self.pairing.pairs), 'pair')} of deterministic runs "
            f"{'differs' if len(self.exact.different) == 1 else 'differ'}"
        )

    @property
    def regressions(self) -> list[str]:
        """The regressions in words; empty if there are none."""
        said = [f"{effect.metric}: {describe(effect)}" for effect in self.effects if effect.regressed]
        said += [
            f"{change.oracle}: new in {plural(len(change.new), 'run')}"
            for change in self.findings
            if change.new
        ]
        said += [f"case {case}, seed {seed}: {outcome}" for case, seed, outcome in self.broken]
        if self.options.identical and self.differs:
            said.append(self.differs)
        return said

    @property
    def incomplete(self) -> list[str]:
        """The reasons why the comparison does not include all runs of both sides, each as a sentence."""
        said = [f"damaged: {problem}" for problem in self.problems]
        for side, runs, other in (("a", self.pairing.only_a, "b"), ("b", self.pairing.only_b, "a")):
            if runs:
                said.append(
                    f"{plural(len(runs), 'run')} of {side} without a partner in {other}{_seeds(self, side)}"
                )
        if apart := _apart(self.pairing.only_a, self.pairing.only_b):
            named = ", ".join(f"`{name}`" for name in apart)
            said.append(
                f"{named} {'has' if len(apart) == 1 else 'have'} other values in these runs of a than in those of b: "
                "--where-a and --where-b, or --ignore, pair them"
            )
        if self.unfinished:
            said.append(
                f"{plural(self.unfinished, 'pair')} without metrics, because the run of a was not done"
            )
        return said

    @property
    def same(self) -> bool:
        """Whether no metric has a relevant difference, findings are equal, and all runs completed and were compared."""
        calm = {Verdict.IDENTICAL, Verdict.ALIKE}
        changed = any(change.new or change.gone for change in self.findings)
        exact = self.exact is not None and self.exact.failed
        quiet = not changed and not self.broken and not exact and not self.incomplete
        return quiet and all(effect.verdict in calm for effect in self.effects)

    def as_json(self) -> dict[str, object]:
        """The comparison as a JSON object."""
        return {
            "format": 2,
            "a": self.a,
            "b": self.b,
            "options": asdict(self.options),
            "family": self.family,
            "compared": {name: list(values) for name, values in self.pairing.compared.items()},
            "pairs": len(self.pairing.pairs),
            "exact": None if self.exact is None else asdict(self.exact),
            "skipped": [asdict(one) for one in self.skipped],
            "versions": list(self.versions),
            "incomplete": self.incomplete,
            "repeated": self.repeated,
            "only_a": [[run["case"], run["seed"]] for run in self.pairing.only_a],
            "only_b": [[run["case"], run["seed"]] for run in self.pairing.only_b],
            "same": self.same,
            "effects": [asdict(effect) for effect in self.effects],
            "findings": [asdict(change) for change in self.findings],
            "broken": [list(run) for run in self.broken],
            "regressions": self.regressions,
            "undecided": self.undecided,
            "problems": list(self.problems),
        }


def compare(a: Results, b: Results, options: Options | None = None, sides: Sides | None = None) -> Comparison:
    """Compares two results, or two parts of one selected by `sides`.

    Raises `UserError` if nothing can be compared: unreadable results, no pairs, an unknown metric.
    """
    chosen = options or Options()
    for side in (a, b):
        _readable(side)
    pairing = pair(a, b, sides or Sides())
    done = [two for two in pairing.pairs if two.a.get("outcome") == two.b.get("outcome") == Outcome.DONE]
    broken = tuple(
        (str(two.b["case"]), int(two.b["seed"]), str(two.b.get("outcome")))
        for two in pairing.pairs
        if two.a.get("outcome") == Outcome.DONE and two.b.get("outcome") != Outcome.DONE
    )
    skipped, names, why = _names(a, b, chosen)
    told = _distinct(done)
    certain = exact(pairing, _equal(a, b, done, _comparable(a, b)))
    left, right = _values(a, [two.a for two in told], names), _values(b, [two.b for two in told], names)
    made = tuple(
        effects(left, right, told, chosen, deterministic=certain is not None, sampled=sampled([a, b]))
    )
    scripts = any(two.a.get("script") for two in pairing.pairs)
    if not any(effect.pairs for effect in made) and not broken and not scripts:
        lacks = "no run was done on both sides" if not done else "no metric has a value on both sides"
        if skipped:
            lacks = "; ".join(f"{', '.join(one.metrics[:_LISTED])}: {one.why}" for one in skipped)
        raise UserError(f"nothing can be compared: {lacks}", Place(b.folder))
    problems = tuple(dict.fromkeys(str(problem) for side in (a, b) for problem in _damage(side)))
    return Comparison(
        str(a.folder),
        str(b.folder),
        chosen,
        pairing,
        made,
        _findings(a, b, done),
        broken,
        problems,
        certain,
        tuple(skipped),
        tuple(versions(a, b)),
        sum(
            two.a.get("outcome") != Outcome.DONE and two.a.get("outcome") != two.a.get("expect", "done")
            for two in pairing.pairs
        ),
        len(done) - len(told),
        why,
    )


def _apart(left: Sequence[RunRow], right: Sequence[RunRow]) -> list[str]:
    """The factors of which no value of the runs on one side is one of the other side's."""

    def values(runs: Sequence[RunRow]) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for run in runs:
            for name, value in (run.get("varied") or {}).items():
                found.setdefault(name, set()).add(str(as_text(value)))
        return found

    of_left, of_right = values(left), values(right)
    return [name for name, some in of_left.items() if name in of_right and not some & of_right[name]]


def _seeds(comparison: Comparison, side: str) -> str:
    """Seeds that only one side has, as the end of a sentence about runs without a partner."""
    pairing = comparison.pairing
    alone, others = (pairing.only_a, pairing.only_b) if side == "a" else (pairing.only_b, pairing.only_a)
    paired = {two.b["seed"] for two in pairing.pairs} | {run["seed"] for run in others}
    seeds = sorted({int(run["seed"]) for run in alone} - {int(seed) for seed in paired})
    return f" (seeds {', '.join(map(str, seeds))} only in {side})" if seeds else ""


def _readable(results: Results) -> None:
    """Raises `UserError` if the list of runs of a result cannot be read, because missing runs would go unnoticed."""
    if results.listed is None:
        damage = [
            problem
            for problem in _damage(results)
            if problem.place and problem.place.file.name in {RESULT, RUNS}
        ]
        if damage:
            raise UserError.several(damage)
        raise UserError(
            "it does not list the runs, so that they cannot be compared", Place(results.folder / RESULT)
        )


def _damage(results: Results) -> list[Problem]:
    """The damaged files among those that a comparison reads; recordings are not among them."""
    rows = set(results.metrics.select("case", "seed").iter_rows())
    _ = results.found
    damaged = [one for one in results.noted if one.place is None or one.place.file.parent == results.folder]
    measured = [run for run in results.runs if run.get("outcome") == Outcome.DONE and not run.get("script")]
    if absent := sum((run["case"], run["seed"]) not in rows for run in measured):
        place = Place(results.folder / METRICS)
        damaged.append(
            Problem(
                f"{plural(absent, 'run')} that {'was' if absent == 1 else 'were'} done have no row", place
            )
        )
    return damaged


def _names(a: Results, b: Results, options: Options) -> tuple[list[Skipped], list[str], str]:
    """The metrics with different definitions on the two sides, the compared metrics, and where they come from."""
    both = _common(a, b)
    why = "all"
    if options.metrics is not None:
        why = "those asked for"
        for name in sorted(set(options.metrics) - set(both)):
            known = interface.METRICS
            wrong = (
                "the results do not both have it"
                if name in known
                else f"no such metric{suggest(name, known)}"
            )
            raise UserError(f"`--metric {name}`: {wrong}; `tcpassay metrics` lists all")
        both = [name for name in both if name in options.metrics]
    elif not options.everything:
        chosen, why = family([a, b], both)
        both = [name for name in both if name in chosen]
    gone = skipped(a, b, both)
    absent = {name for one in gone for name in one.metrics}
    return gone, [name for name in both if name not in absent], why


def _comparable(a: Results, b: Results) -> list[str]:
    """All metrics with the same definition on both sides."""
    both = _common(a, b)
    absent = {name for one in skipped(a, b, both) for name in one.metrics}
    return [name for name in both if name not in absent]


def _common(a: Results, b: Results) -> list[str]:
    """The metrics of both sides."""
    of_b = set(b.metrics.columns) - {"case", "seed"}
    return [name for name in a.metrics.columns if name in of_b]


def _equal(a: Results, b: Results, pairs: list[Pair], names: list[str]) -> dict[tuple[str, int], bool]:
    """By case and seed of the second side, whether all metrics of the pair are equal."""
    of_a, of_b = _column(a, [two.a for two in pairs]), _column(b, [two.b for two in pairs])
    alike = np.ones(len(pairs), dtype=np.bool_)
    for name in names:
        left, right = of_a(name), of_b(name)
        alike &= (left == right) | (np.isnan(left) & np.isnan(right))
    return {
        (str(two.b["case"]), int(two.b["seed"])): bool(same) for two, same in zip(pairs, alike, strict=True)
    }


def _distinct(pairs: list[Pair]) -> list[Pair]:
    """The pairs without seeds in which every case repeats its runs of another seed."""
    steps: dict[object, set[object]] = {}
    for two in pairs:
        traces = two.a.get("trace"), two.b.get("trace")
        same = (two.a["case"], two.b["case"], *(traces if all(traces) else (two.a["seed"],)))
        steps.setdefault(two.a["seed"], set()).add(same)
    kept: dict[object, object] = {}
    for seed, taken in steps.items():
        kept.setdefault(frozenset(taken), seed)
    seeds = set(kept.values())
    return [two for two in pairs if two.a["seed"] in seeds]


def _values(results: Results, runs: list[RunRow], names: list[str]) -> dict[str, Reals]:
    """These metrics of the runs, in their order; NaN if one is absent."""
    column = _column(results, runs)
    return {name: column(name) for name in names}


def _column(results: Results, runs: list[RunRow]) -> Callable[[str], Reals]:
    """The values of a metric in the order of the runs; NaN if one is absent."""
    keys = results.metrics.select("case", "seed").with_row_index("row")
    keys = keys.unique(["case", "seed"], keep="first", maintain_order=True)
    asked = pl.DataFrame(
        {"case": [run["case"] for run in runs], "seed": [run["seed"] for run in runs]},
        schema={"case": pl.String(), "seed": pl.Int64()},
    )
    absent = len(results.metrics)
    rows = asked.join(keys, on=["case", "seed"], how="left", maintain_order="left")["row"]
    order = rows.fill_null(absent).to_numpy()
    # A method of a column of polars is a query, which takes longer than all of this for the runs of most folders.
    return lambda name: np.append(results.metrics[name].to_numpy(), math.nan)[order]


def _findings(a: Results, b: Results, pairs: list[Pair]) -> tuple[Change, ...]:
    of_a, of_b = _found(a), _found(b)
    changes = []
    for oracle in sorted({*of_a, *of_b}):
        before, after = of_a.get(oracle, set()), of_b.get(oracle, set())
        new, gone = [], []
        for two in pairs:
            run_a, run_b = (two.a["case"], int(two.a["seed"])), (two.b["case"], int(two.b["seed"]))
            if run_b in after and run_a not in before:
                new.append(run_b)
            if run_a in before and run_b not in after:
                gone.append(run_a)
        changes.append(Change(oracle, tuple(new), tuple(gone)))
    return tuple(changes)


def _found(results: Results) -> dict[str, set[tuple[str, int]]]:
    found: dict[str, set[tuple[str, int]]] = {}
    for one in results.found:
        found.setdefault(one.oracle, set()).add((one.case, one.seed or 0))
    return found
