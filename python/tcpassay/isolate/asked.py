"""Isolations that start from a check that failed, or from a metric of two cases."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tcpassay.errors import Place, UserError
from tcpassay.interface import METRICS
from tcpassay.isolate.bound import Beyond, Bound, symptom_of
from tcpassay.isolate.triples import triples_of
from tcpassay.messages import Outcome
from tcpassay.plan.document import suggest
from tcpassay.plural import plural
from tcpassay.result_format import RunRow
from tcpassay.results import Results

CHECK: Final = "check"
COMPARED: Final = "compared"
_ASKED: Final = re.compile(rf"{CHECK}(?:-([1-9][0-9]{{0,3}}))?")
_FAILED: Final = {"<": ">=", "<=": ">", ">=": "<", ">": "<=", "==": "!=", "!=": "=="}
"""For the operator of a check the comparison that holds for a run with which it fails."""
TOLERANCE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Question:
    """Why a metric of one case is not that of another one."""

    metric: str
    case: str
    """The id of the case, or its beginning."""
    against: str
    """The id of the case with which it is compared, or its beginning."""
    tolerance: float = TOLERANCE
    """Part of the difference of the two cases by which a run may differ from `case` and still count as equal to it."""


def is_check(text: str | None) -> bool:
    """Whether the user asks for a check that failed: `check`, or `check-2` for the second one."""
    return text is not None and _ASKED.fullmatch(text) is not None


def failed(text: str, results: Results) -> Beyond:
    """The run with which a check failed, and the limit of the check. Raises `UserError`."""
    match = _ASKED.fullmatch(text)
    place = Place(results.folder)
    wrong = [one for one in results.index.get("checks", []) if not one["holds"]]
    rank = int(match[1] or 1) if match else 0
    if not wrong:
        raise UserError(f"`{text}`: no check of these results failed", place)
    if not 1 <= rank <= len(wrong):
        raise UserError(f"`{text}`: {plural(len(wrong), 'failed check')} in these results", place)
    one = wrong[rank - 1]
    run = next(
        (run for run in results.runs if (run["case"], run["seed"]) == (one["case"], one["seed"])), None
    )
    if one["limit"] is None or one["observed"] is None or run is None:
        why = one["note"] or "its run is not there"
        raise UserError(f"`{text}`: `{one['metric']}` has no value that settings could explain: {why}", place)
    _isolatable(run, results)
    return Beyond(symptom_of(run), Bound(CHECK, one["metric"], _FAILED[one["op"]], one["limit"]))


def compared(question: Question, results: Results) -> Beyond:
    """The run of the case, the settings of the other case, and the limit between their values. Raises `UserError`.

    The value of a case is the mean over its runs.
    """
    place = Place(results.folder)
    metric = question.metric
    if metric not in METRICS:
        raise UserError(f"`--metric {metric}`: there is no such metric{suggest(metric, METRICS)}")
    if not 0 < question.tolerance < 1:
        raise UserError(f"`--tolerance {question.tolerance:.0%}`: give more than 0 % and less than 100 %")
    mine, other = _runs(question.case, results), _runs(question.against, results)
    here, there = _value(mine, metric, results), _value(other, metric, results)
    cases = f"the cases {mine[0]['case']} and {other[0]['case']}"
    if mine[0].get("substrate") != other[0].get("substrate"):
        raise UserError(f"{cases} ran on different substrates; `tcpassay pairs` compares these", place)
    if here == there:
        raise UserError(f"the `{metric}` of {cases} is the same", place)
    limit = here + question.tolerance * (there - here)
    run = next(run for run in mine if (run.get("metrics") or {}).get(metric) is not None)
    _isolatable(other[0], results)
    bound = Bound(COMPARED, metric, "<=" if here < there else ">=", limit)
    return Beyond(symptom_of(run), bound, triples_of(other[0]["triples"]))


def _runs(case: str, results: Results) -> Sequence[RunRow]:
    """The completed runs of the one case whose id begins so."""
    ids = list(dict.fromkeys(run["case"] for run in results.runs if case and run["case"].startswith(case)))
    if len(ids) != 1:
        there = ", ".join(ids[:10]) or "none"
        raise UserError(
            f"`{case}` is to be the id of one case or its beginning; there are: {there}",
            Place(results.folder),
        )
    made = [run for run in results.runs if run["case"] == ids[0] and run.get("outcome") == Outcome.DONE]
    if not made:
        raise UserError(f"no run of case {ids[0]} completed", Place(results.folder))
    _isolatable(made[0], results)
    return made


def _value(runs: Sequence[RunRow], metric: str, results: Results) -> float:
    values = [value for run in runs if (value := (run.get("metrics") or {}).get(metric)) is not None]
    if not values:
        raise UserError(f"no run of case {runs[0]['case']} has a value of `{metric}`", Place(results.folder))
    return statistics.fmean(values)


def _isolatable(run: RunRow, results: Results) -> None:
    if not isinstance(run.get("triples"), dict) or run.get("script"):
        raise UserError(
            f"case {run['case']} is a script, which has no settings to isolate", Place(results.folder)
        )
