"""Metrics by the levels of parameters: means with confidence intervals, for runs of a plan or of a result folder.

The mean over the runs of a level estimates the value for similar cases; its interval is Student's with 95 % confidence,
computed from the variation between runs. Runs of one case that are identical for several seeds count once, because they
are not independent.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

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


def mean(values: Sequence[float]) -> Mean:
    """The mean of at least one value."""
    count = len(values)
    if count < 2:  # noqa: PLR2004 - one value has no spread
        return Mean(values[0], None, count)
    quantile = T95[count - 2] if count - 2 < len(T95) else NORMAL
    return Mean(statistics.fmean(values), quantile * statistics.stdev(values) / math.sqrt(count), count)


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


def grid(runs: Sequence[Measured], metric: str, down: str, across: str | None = None) -> Grid:
    """A metric by the levels of one or two parameters. Runs without the metric or the parameter are ignored."""
    groups: dict[tuple[str, str], list[float]] = {}
    rows: dict[str, None] = {}
    columns: dict[str, None] = {}
    for run in distinct(runs):
        value = run.metrics.get(metric)
        if value is None or down not in run.varied or (across is not None and across not in run.varied):
            continue
        place = run.varied[down], run.varied[across] if across else ""
        rows.setdefault(place[0])
        columns.setdefault(place[1])
        groups.setdefault(place, []).append(value)
    cells = {place: mean(values) for place, values in groups.items()}
    return Grid(metric, down, across, tuple(rows), tuple(columns), cells)


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
