"""The checks of a plan, applied to the metrics of its runs."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from tcpassay.plan.expand import Case
from tcpassay.plan.model import Check
from tcpassay.plan.read import Plan
from tcpassay.run.operators import COMPARE

OVER: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "min": min,
    "max": max,
}

Metrics = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A check on one run, or on a statistic over several."""

    check: Check
    subject: str
    holds: bool
    observed: float | None
    limit: float | None
    """What the observed value was compared with: the check's value, times the partner's metric if it asks so."""
    note: str = ""

    def as_json(self) -> dict[str, object]:
        """For the machine-readable result."""
        return {
            "metric": self.check.metric,
            "op": self.check.op,
            "value": self.check.value,
            "subject": self.subject,
            "observed": self.observed,
            "limit": self.limit,
            "holds": self.holds,
            "why": self.check.why,
            "note": self.note,
        }


def judge(plan: Plan, measured: dict[tuple[str, int], Metrics]) -> list[Verdict]:
    """Every check of the plan on every run that it selects; a run without the metric does not hold."""
    return [verdict for check in plan.spec.check for verdict in _judge(plan, check, measured)]


def _judge(plan: Plan, check: Check, measured: dict[tuple[str, int], Metrics]) -> list[Verdict]:
    selected = [case for case in plan.select(check.where) if case.expect == "done"]
    partners = {case.id: _partner(plan, check, case) for case in selected}
    # Where only some cases were chosen to run, a check is about those that can be judged.
    runs = [(case, seed) for case in selected if partners[case.id] for seed in plan.spec.seeds]
    if not runs or (check.over != "each" and not all(partners.values())):
        return []
    pairs = [_pair(check, case, partners[case.id] or case, seed, measured) for case, seed in runs]
    if check.over == "each":
        return [
            _verdict(check, _subject(plan, case, seed), observed, limit)
            for (case, seed), (observed, limit) in zip(runs, pairs, strict=True)
        ]
    subject = f"{check.over} of {len(runs)} run{'s' if len(runs) > 1 else ''}"
    observed = [o for o, _ in pairs if o is not None]
    limits = [x for _, x in pairs if x is not None]
    if len(observed) < len(runs) or len(limits) < len(runs):
        return [
            Verdict(
                check, subject, holds=False, observed=None, limit=None, note="not every run has the metric"
            )
        ]
    over = OVER[check.over]
    return [_verdict(check, subject, over(observed), over(limits))]


def _partner(plan: Plan, check: Check, case: Case) -> Case | None:
    """The case whose metric is the measure, the case itself where there is no other, or none if that does not run."""
    if check.times is None:
        return case
    free = {name: value for name, value in case.varied.items() if name not in check.times}
    return next(iter(plan.select({**free, **check.times})), None)


def _pair(
    check: Check, case: Case, partner: Case, seed: int, measured: dict[tuple[str, int], Metrics]
) -> tuple[float | None, float | None]:
    observed = measured.get((case.id, seed), {}).get(check.metric)
    if check.times is None:
        return observed, check.value
    factor = measured.get((partner.id, seed), {}).get(check.metric)
    return observed, None if factor is None else check.value * factor


def _subject(plan: Plan, case: Case, seed: int) -> str:
    parts = [case.label] if case.label else []
    if len(plan.spec.seeds) > 1:
        parts.append(f"seed={seed}")
    return ", ".join(parts) or "the case"


def _verdict(check: Check, subject: str, observed: float | None, limit: float | None) -> Verdict:
    if observed is None or limit is None:
        return Verdict(
            check, subject, holds=False, observed=observed, limit=limit, note="the run has no such metric"
        )
    return Verdict(check, subject, COMPARE[check.op](observed, limit), observed, limit)
