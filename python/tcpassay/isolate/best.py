"""Isolation of a best case of a search; its effect is that the metric is beyond a limit.

The limit is half-way between the median of the first generation, which is drawn at random, and the value of the case.
"""

import re
from typing import Final

from tcpassay.errors import Place, UserError
from tcpassay.isolate.bound import Beyond, Bound, symptom_of
from tcpassay.plan.model import PlanFile, Search
from tcpassay.quantile import median
from tcpassay.result_format import SearchRow
from tcpassay.results import Results

NAME: Final = "best"
_ASKED: Final = re.compile(rf"{NAME}(?:-([1-9][0-9]{{0,2}}))?")


def is_best(text: str | None) -> bool:
    """Whether the user asks for a best case: `best`, or `best-2` for the second one."""
    return text is not None and _ASKED.fullmatch(text) is not None


def names_of(search: SearchRow | None) -> list[str]:
    """The names of the best cases of a search for a metric, that can be isolated; none of any other plan."""
    if search is None or search["metric"] is None:
        return []
    return [NAME if place == 1 else f"{NAME}-{place}" for place, _ in enumerate(search["best"], 1)]


def best(text: str, results: Results, spec: PlanFile) -> Beyond:
    """The requested best case, and the limit of the metric for runs that count as equal. Raises `UserError`."""
    match, search = _ASKED.fullmatch(text), results.index.get("search")
    if match is None or search is None or not isinstance(spec.strategy, Search):
        message = f"`{text}`: the plan of these results is no search and has no best case"
        raise UserError(message, Place(results.folder))
    rank = int(match[1] or 1)
    if search["metric"] is None:
        message = f"`{text}`: this search is for a finding, not for a metric; isolate its findings"
        raise UserError(message, Place(results.folder))
    if rank > len(search["best"]):
        message = f"`{text}`: this search has {len(search['best'])} best cases"
        raise UserError(message, Place(results.folder))
    one = search["best"][rank - 1]
    run = next((run for run in results.runs if run["case"] == one["case"]), None)
    if run is None or one["value"] is None or not isinstance(run.get("triples"), dict):
        raise UserError(f"`{text}`: its case {one['case']} is not among the runs", Place(results.folder))
    op = ">=" if search["worst"] == "greatest" else "<="
    limit = (_usual(search, results, spec.strategy) + one["value"]) / 2
    return Beyond(symptom_of(run), Bound(NAME, search["metric"], op, limit))


def _usual(search: SearchRow, results: Results, strategy: Search) -> float:
    """The median of the metric over the first generation."""
    first = list(dict.fromkeys(run["case"] for run in results.runs))[: strategy.population]
    values = [
        value
        for run in results.runs
        if run["case"] in first
        and search["metric"] is not None
        and (value := (run.get("metrics") or {}).get(search["metric"])) is not None
    ]
    if not values:
        raise UserError("none of its first generation has the metric", Place(results.folder))
    return median(values)
