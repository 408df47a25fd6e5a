"""Metrics by the levels of parameters: means with confidence intervals, for runs of a plan or of a result folder.

The mean over the runs of a level estimates the value for similar cases; its interval is Student's with 95 % confidence,
computed from the variation between runs. Runs of one case that are identical for several seeds count once, because they
are not independent.

If a level has several cases with the same seeds, the values of each seed are averaged first, and the interval is
computed from the variation between seeds: the values that a plan gives to its other parameters were chosen and are no
random sample, and runs of different cases with one seed see the same random numbers. The same holds for the hosts and
flows of one run, which share its path.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tcpassay.errors import UserError
from tcpassay.interface import METRICS
from tcpassay.messages import Outcome
from tcpassay.plan.document import suggest
from tcpassay.plan.quantity import quantity
from tcpassay.plan.table import SEED
from tcpassay.result_format import RunRow

OF_ENTITIES: Final = {
    "goodput": "bit/s",
    "share": "1",
    "retransmitted": "1",
    "timeouts": "1",
    "min_rtt": "s",
    "srtt": "s",
}
"""The values of a host or flow (`entities.py`) with their units.

Goodput is the bytes that the receiving applications read, over the time of the run (host) or of the flow. `share` is
the part of the bytes read of all, `retransmitted` that of the payload sent again. `srtt` is the smoothed round-trip
time at the end, of a host the mean of its flows.
"""
T95: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""The 97.5 % quantile of Student's distribution with 1, 2, ... degrees of freedom."""
NORMAL: Final = 1.960


@dataclass(frozen=True, slots=True)
class Measured:
    """A completed run."""

    case: str
    seed: int
    varied: Mapping[str, str]
    metrics: Mapping[str, float | None]
    trace: str = ""
    whole: str = ""
    """The case of the run, for the values of one of its hosts or flows."""


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of a metric over some runs."""

    mean: float
    half: float | None
    """Half the width of the confidence interval; `None` for a single run."""
    count: int


@dataclass(frozen=True, slots=True)
class Grid:
    """A metric by the levels of one or two parameters."""

    metric: str
    down: str
    across: str | None
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    """The levels of `across`; one empty text if there is none."""
    cells: Mapping[tuple[str, str], Mean]
    over: tuple[str, ...] = ()
    """Other parameters, over all values of which the means are."""
    without: tuple[str, ...] = ()
    """Levels of the parameters whose runs have no value of the metric, as `path = varying`."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a metric by the levels of one or two parameters."""

    metric: str
    down: str
    across: str | None
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    """The levels of `across`; one empty text if there is none."""
    cells: Mapping[tuple[str, str], tuple[float, ...]]
    """The values of distinct runs, for each row and column that has any."""
    means: Mapping[tuple[str, str], Mean]
    over: tuple[str, ...]
    """The other parameters that have several values in a cell."""
    without: tuple[str, ...]
    """Levels of the parameters whose runs have no value of the metric, as `path = varying`."""

    def mean(self, row: str, column: str) -> Mean | None:
        """The mean of a cell with its interval; `None` for an empty cell."""
        return self.means.get((row, column))


def measured(runs: Iterable[RunRow]) -> list[Measured]:
    """The completed runs of a result folder that have metrics."""
    return [
        Measured(
            str(run["case"]),
            int(run["seed"]),
            {name: _text(value) for name, value in (run.get("varied") or {}).items()},
            run.get("metrics") or {},
            str(run.get("trace") or ""),
        )
        for run in runs
        if run.get("outcome") == Outcome.DONE and run.get("metrics")
    ]


def unit_of(metric: str) -> str:
    """The unit of a metric or of a value of a host or flow."""
    return METRICS[metric].unit if metric in METRICS else OF_ENTITIES.get(metric, "1")


def _text(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def parameter(option: str, name: str, runs: Sequence[Measured]) -> str:
    """The varied parameter with this name; the last part of its path is enough. Raises `UserError`.

    `option` is where the name is from, as in `--by`. `seed` is a parameter, too, if there are several.
    """
    varies = factors(runs)
    meant = [name] if name in varies else [path for path in varies if name == path.rpartition(".")[2]]
    if len(meant) == 1:
        return meant[0]
    if name == SEED and len({run.seed for run in runs}) > 1:
        return SEED
    listed = ", ".join(f"`{path}`" for path in varies) or "nothing"
    raise UserError(f"`{option} {name}`: the plan varies {listed}{suggest(name, varies)}")


def level(run: Measured, name: str) -> str | None:
    """The level that a run has of a parameter, or its seed; `None` if it does not have the parameter."""
    return run.varied.get(name) or (str(run.seed) if name == SEED else None)


def selected(runs: Sequence[Measured], where: Iterable[tuple[str, str]]) -> list[Measured]:
    """The runs with one of the given values of each named parameter. Raises `UserError` if there are none."""
    wanted: dict[str, set[str]] = {}
    for name, value in where:
        path = parameter("--where", name, runs)
        levels = ordered(dict.fromkeys(text for run in runs if (text := level(run, path)) is not None))
        if value not in levels:
            listed = ", ".join(levels)
            raise UserError(f"`--where {name}={value}`: the values are {listed}{suggest(value, levels)}")
        wanted.setdefault(path, set()).add(value)
    chosen = [run for run in runs if all(level(run, path) in values for path, values in wanted.items())]
    if not chosen:
        raise UserError("no run has these values of `--where`")
    return chosen


def ordered(levels: Iterable[str]) -> tuple[str, ...]:
    """Levels in ascending order if all are quantities of one kind, otherwise in the given order."""
    listed = tuple(levels)
    amounts = [quantity(text) for text in listed]
    if amounts and all(one.comparable(amounts[0]) for one in amounts):
        return tuple(sorted(listed, key=lambda text: quantity(text).amount))
    return listed


def combined(runs: Sequence[Measured], names: Sequence[str]) -> tuple[str, list[Measured]]:
    """The runs with one parameter more, whose levels are the combinations of those of others, and its name.

    They are sorted by these levels. Runs without one of the parameters are left out.
    """
    orders = []
    for name in names:
        found = dict.fromkeys(text for run in runs if (text := level(run, name)) is not None)
        orders.append({text: place for place, text in enumerate(ordered(found))})
    made: list[tuple[tuple[int, ...], Measured]] = []
    joined = ", ".join(names)
    for run in runs:
        texts = [level(run, name) for name in names]
        if None in texts:
            continue
        known = [text for text in texts if text is not None]
        place = tuple(order[text] for order, text in zip(orders, known, strict=True))
        made.append((place, replace(run, varied={**run.varied, joined: ", ".join(known)})))
    return joined, [run for _, run in sorted(made, key=lambda one: one[0])]


def mean(values: Sequence[float]) -> Mean:
    """The mean of at least one value."""
    count = len(values)
    if count < 2:  # noqa: PLR2004 - one value has no spread
        return Mean(values[0], None, count)
    quantile = T95[count - 2] if count - 2 < len(T95) else NORMAL
    return Mean(statistics.fmean(values), quantile * statistics.stdev(values) / math.sqrt(count), count)


def mean_of_runs(runs: Sequence[tuple[Measured, float]]) -> Mean:
    """The mean of a value over runs, or over hosts or flows of runs, of one or more cases."""
    cases: dict[str, dict[int, list[float]]] = {}
    traces: dict[tuple[str, int], str] = {}
    for run, value in runs:
        case = run.whole or run.case
        cases.setdefault(case, {}).setdefault(run.seed, []).append(value)
        traces[case, run.seed] = run.trace or str(run.seed)
    seeds = set.intersection(*(set(of) for of in cases.values()))
    if len(cases) == 1 or len(seeds) > 1:
        # Seeds in which every case took the same steps as in another one are no further evidence.
        kept = {tuple(traces[case, seed] for case in cases): seed for seed in sorted(seeds, reverse=True)}
        return mean(
            [
                statistics.fmean(statistics.fmean(of[seed]) for of in cases.values())
                for seed in sorted(kept.values())
            ]
        )
    return mean([statistics.fmean(values) for of in cases.values() for values in of.values()])


def distinct(runs: Sequence[Measured]) -> list[Measured]:
    """The runs without duplicates: runs of a case that are identical to those of another seed."""
    kept: dict[tuple[str, object], Measured] = {}
    for run in runs:
        kept.setdefault((run.case, run.trace or run.seed), run)
    return list(kept.values())


def factors(runs: Sequence[Measured]) -> list[str]:
    """The parameters with several levels in these runs, in the order of the plan."""
    seen: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.varied.items():
            seen.setdefault(name, set()).add(value)
    return [name for name, values in seen.items() if len(values) > 1]


def values(runs: Sequence[Measured], metric: str, down: str, across: str | None = None) -> Values:
    """A metric by the levels of one or two parameters. Runs without the metric or the parameter are ignored."""
    cells: dict[tuple[str, str], list[tuple[Measured, float]]] = {}
    rows: dict[str, None] = {}
    columns: dict[str, None] = {}
    for run in runs:
        value = run.metrics.get(metric)
        row, column = level(run, down), level(run, across) if across else ""
        if value is None or row is None or column is None:
            continue
        rows.setdefault(row)
        columns.setdefault(column)
        cells.setdefault((row, column), []).append((run, value))
    found = {place: _distinct_values(of, every=SEED in {down, across}) for place, of in cells.items()}
    means = {place: mean_of_runs(of) for place, of in cells.items()}
    if SEED in {down, across}:
        # A cell is one seed, and what its cases differ by is no error of it.
        means = {place: replace(one, half=None) for place, one in means.items()}
    rest = [
        dict.fromkeys(
            tuple((name, text) for name, text in run.varied.items() if name not in {down, across})
            for run, _ in of
        )
        for of in cells.values()
    ]
    without = [text for name in (down, across) if name for text in _without(runs, metric, name)]
    return Values(
        metric, down, across, ordered(rows), ordered(columns), found, means, _over(rest), tuple(without)
    )


def _without(runs: Sequence[Measured], metric: str, name: str) -> list[str]:
    known = {level(run, name) for run in runs if run.metrics.get(metric) is not None}
    there = dict.fromkeys(level(run, name) for run in runs)
    return [f"{name} = {text}" for text in there if text is not None and text not in known]


def _distinct_values(runs: Sequence[tuple[Measured, float]], *, every: bool) -> tuple[float, ...]:
    kept = {id(run) for run in distinct([run for run, _ in runs])}
    return tuple(value for run, value in runs if every or id(run) in kept)


def _over(cells: Iterable[Iterable[tuple[tuple[str, str], ...]]]) -> tuple[str, ...]:
    """The parameters with several values in one cell."""
    found: dict[str, None] = {}
    for parts in cells:
        seen: dict[str, set[str]] = {}
        for rest in parts:
            for name, text in rest:
                seen.setdefault(name, set()).add(text)
        found |= dict.fromkeys(name for name, texts in seen.items() if len(texts) > 1)
    return tuple(found)


def grid(runs: Sequence[Measured], metric: str, down: str, across: str | None = None) -> Grid:
    """The means of a metric by the levels of one or two parameters."""
    found = values(runs, metric, down, across)
    cells = {place: mean for place in found.cells if (mean := found.mean(*place)) is not None}
    return Grid(metric, down, across, found.rows, found.columns, cells, found.over, found.without)


def telling(runs: Sequence[Measured], metric: str) -> list[tuple[str, float]]:
    """The parameters with the share of the metric's variance that their levels explain, largest first."""
    ranked = []
    for name in factors(runs):
        groups: dict[str, list[float]] = {}
        for run in runs:
            value = run.metrics.get(metric)
            if value is not None and name in run.varied:
                groups.setdefault(run.varied[name], []).append(value)
        ranked.append((name, _explained(list(groups.values()))))
    return sorted(ranked, key=lambda one: -one[1])


def _explained(groups: Sequence[Sequence[float]]) -> float:
    values = [value for group in groups for value in group]
    if not values:
        return 0.0
    middle = statistics.fmean(values)
    total = math.fsum((value - middle) ** 2 for value in values)
    between = math.fsum(len(group) * (statistics.fmean(group) - middle) ** 2 for group in groups)
    return between / total if total > 0 else 0.0


def by_case(runs: Sequence[Measured]) -> dict[str, list[Measured]]:
    """The runs of each case, which differ in their seeds."""
    made: dict[str, list[Measured]] = {}
    for run in runs:
        made.setdefault(run.case, []).append(run)
    return made
