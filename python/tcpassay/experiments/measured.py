"""The numbers of an experiment, from the results of its plan."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Final

from tcpassay.experiments.readings import AGREEMENT, READINGS
from tcpassay.interface import METRICS
from tcpassay.messages import Value
from tcpassay.plan import experiment_table, fields
from tcpassay.plan.expand import same
from tcpassay.quantile import median
from tcpassay.recording import Recording
from tcpassay.result_format import RunRow
from tcpassay.results import Results

_OVER: Final[dict[str, Callable[[list[float]], float]]] = {
    "mean": fmean,
    "median": median,
    "min": min,
    "max": max,
}


def unit(metric: str) -> str:
    """The unit of a metric or reading."""
    return READINGS[metric].unit if metric in READINGS else METRICS[metric].unit


class Numbers:
    """Reads numbers from the results of a plan."""

    def __init__(self, results: Results, slower_by: float = 1.0) -> None:
        self.results = results
        self.slower_by = slower_by
        self._read: dict[tuple[str, int, str, int | None], float | None] = {}

    def value(self, one: experiment_table.Measured, row: Mapping[str, Value] | None = None) -> float | None:
        """A number over all runs that are selected; `None` if a run does not have it. `row` selects further."""
        values = self.values(one, row)
        known = [value for value in values if value is not None]
        return _OVER[one.over](known) if values and len(known) == len(values) else None

    def values(
        self, one: experiment_table.Measured, row: Mapping[str, Value] | None = None
    ) -> list[float | None]:
        """The numbers of all runs that are selected, in the order of the plan."""
        scripts = one.metric == AGREEMENT
        return [self._one(one, run) for run in self.runs(one.where, row) if ("script" in run) == scripts]

    def runs(self, where: fields.Selector, row: Mapping[str, Value] | None = None) -> list[RunRow]:
        """The runs of a selector."""
        return [run for run in self.results.runs if _matches(run, where) and _matches(run, row or {})]

    def levels(self, factor: str) -> list[Value]:
        """The values of a factor, in the order of the plan."""
        return list(
            dict.fromkeys(run["varied"][factor] for run in self.results.runs if factor in run["varied"])
        )

    def _one(self, one: experiment_table.Measured, run: RunRow) -> float | None:
        value = self._number(one, run)
        if one.relative_to is None or value is None:
            return value
        wanted = {**run["varied"], **one.relative_to}
        for other in self.results.runs:
            if other["seed"] == run["seed"] and _matches(other, wanted):
                base = self._number(one, other)
                return value / base if base else None
        return None

    def _number(self, one: experiment_table.Measured, run: RunRow) -> float | None:
        """The number as it would be in the network of the plan, if that of the runs is slower."""
        value = self._measured(one, run)
        if value is None or self.slower_by == 1.0:
            return value
        return {"s": value / self.slower_by, "bit/s": value * self.slower_by}.get(unit(one.metric), value)

    def _measured(self, one: experiment_table.Measured, run: RunRow) -> float | None:
        if one.metric == AGREEMENT:
            return float(run["outcome"] == "done" and not run.get("findings"))
        if one.metric in METRICS:
            return (run.get("metrics") or {}).get(one.metric)
        if not run.get("recording"):
            return None
        key = (run["case"], run["seed"], one.metric, one.flow)
        if key not in self._read:
            recording = Recording.open(self.results.place_of(run))
            self._read[key] = READINGS[one.metric].of(recording, one.flow)
        return self._read[key]


def _matches(run: RunRow, selector: Mapping[str, Value | Sequence[Value]]) -> bool:
    known = {**run.get("triples", {}), **run.get("varied", {})}
    for name, wanted in selector.items():
        values: Sequence[Value] = [wanted] if isinstance(wanted, bool | int | float | str) else wanted
        if name not in known or not any(same(known[name], value) for value in values):
            return False
    return True
