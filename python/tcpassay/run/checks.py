"""The checks of a plan, applied to the metrics of its runs."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tcpassay.plan.expand import Case
from tcpassay.plan.model import Check
from tcpassay.plan.read import Plan
from tcpassay.quantile import median
from tcpassay.result_format import VerdictRow
from tcpassay.run.operators import COMPARE

OVER: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "median": median,
    "min": min,
    "max": max,
}

Measured = Mapping[tuple[str, int], Mapping[str, float | None]]
"""The metrics of runs by case and seed."""
MOST_NAMED = 6
"""With more varied parameters, a case is identified by its id alone."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check for one run or for a statistic over several runs."""

    check: Check
    subject: str
    holds: bool
    observed: float | None
    limit: float | None
    """The limit: the value of the check, multiplied by the metric of the partner case if the check has `times`."""
    note: str = ""
    case: str = ""
    """The id of the case; for a verdict about several runs, that of the deciding run."""
    seed: int | None = None
    """The seed of this run."""

    def as_json(self) -> VerdictRow:
        """The form for JSON."""
        return {
            "metric": self.check.metric,
            "op": self.check.op,
            "value": self.check.limit,
            "subject": self.subject,
            "case": self.case or None,
            "seed": self.seed,
            "observed": self.observed,
            "limit": self.limit,
            "holds": self.holds,
            "why": self.check.why,
            "note": self.note,
        }


def judge(plan: Plan, measured: Measured) -> list[Verdict]:
    """Applies every check of the plan to the runs that it selects; a check fails for a run without the metric."""
    return [verdict for check in plan.spec.check for verdict in _judge(plan, check, measured)]


def _judge(plan: Plan, check: Check, measured: Measured) -> list[Verdict]:
    selected = [case for case in plan.select(check.where) if case.expect == "done"]
    partners = {case.id: _partner(plan, check, case) for case in selected}
    # If only some cases were selected to run, a check applies to those that ran.
    runs = [(case, seed) for case in selected if partners[case.id] for seed in plan.spec.seeds]
    if not runs or (check.over != "each" and not all(partners.values())):
        return []
    pairs = [_pair(check, case, partners[case.id] or case, seed, measured) for case, seed in runs]
    if check.over == "each":
        return [
            replace(_verdict(check, _subject(plan, case, seed), observed, limit), case=case.id, seed=seed)
            for (case, seed), (observed, limit) in zip(runs, pairs, strict=True)
        ]
    subject = f"{check.over} of {len(runs)} run{'s' if len(runs) > 1 else ''}"
    observed = [o for o, _ in pairs if o is not None]
    limits = [x for _, x in pairs if x is not None]
    if len(observed) < len(runs) or len(limits) < len(runs):
        case, seed = next(run for run, pair in zip(runs, pairs, strict=True) if None in pair)
        lacking = Verdict(check, subject, holds=False, observed=None, limit=None, case=case.id, seed=seed)
        return [replace(lacking, note=f"case {case.id} seed {seed} has no value of this metric")]
    over = OVER[check.over]
    case, seed = runs[_deciding(check, observed)]
    return [replace(_verdict(check, subject, over(observed), over(limits)), case=case.id, seed=seed)]


def _deciding(check: Check, observed: list[float]) -> int:
    """The run with the most unfavourable value for the check."""
    if check.op in {">", ">="}:
        return observed.index(min(observed))
    if check.op in {"<", "<="}:
        return observed.index(max(observed))
    return max(range(len(observed)), key=lambda n: abs(observed[n] - check.limit))


def _partner(plan: Plan, check: Check, case: Case) -> Case | None:
    """The partner case of a check, the case itself if there is none, or `None` if the partner does not run."""
    if check.times is None:
        return case
    free = {name: value for name, value in case.varied.items() if name not in check.times}
    return next(iter(plan.select({**free, **check.times})), None)


def _pair(
    check: Check, case: Case, partner: Case, seed: int, measured: Measured
) -> tuple[float | None, float | None]:
    observed = measured.get((case.id, seed), {}).get(check.metric)
    if check.times is None:
        return observed, check.limit
    factor = measured.get((partner.id, seed), {}).get(check.metric)
    return observed, None if factor is None else check.limit * factor


def _subject(plan: Plan, case: Case, seed: int) -> str:
    """A run in words: its id, and the varied values if they are few."""
    seeds = f" seed {seed}" if len(plan.spec.seeds) > 1 else ""
    label = f": {case.label}" if case.label and len(case.varied) <= MOST_NAMED else ""
    return f"case {case.id}{seeds}{label}"


def _verdict(check: Check, subject: str, observed: float | None, limit: float | None) -> Verdict:
    if observed is None or limit is None:
        return Verdict(
            check,
            subject,
            holds=False,
            observed=observed,
            limit=limit,
            note="the run has no value of this metric",
        )
    return Verdict(check, subject, COMPARE[check.op](observed, limit), observed, limit)
