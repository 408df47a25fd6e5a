"""Side conditions of a question: limits that the answer must keep, as `saturation >= 90%`.

A condition holds for a candidate if the values of its seeds, each the mean over the environments, lie on the allowed
side of the limit by the two-sided signed-rank test of `compare`, and fails if they lie on the other side. The level of
the test is the caller's, who divides the error of a look by all tests of that look. A condition does not hold in an
environment whose runs have no value of its metric: such a question is an error.
"""

import re
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final

import numpy as np

from tcpassay import interface, levels
from tcpassay.compare.signedrank import shift
from tcpassay.errors import Place, UserError
from tcpassay.plan import table
from tcpassay.plan.document import suggest
from tcpassay.plan.expand import show
from tcpassay.plan.quantity import quantity
from tcpassay.plan.read import Plan
from tcpassay.terminal import number

_FORM: Final = re.compile(r"\s*(\w+)\s*(>=|<=|>|<)\s*(\S+)\s*")
_SHARES: Final = (
    "saturation", "utilisation_", "jain_", "share_", "host_share_", "loss_rate", "mark_share", "ce_share", "limited_",
    "time_", "retransmission_rate", "timeout_time",
)  # fmt: skip
"""Metrics from 0 to 1, or the beginnings of their names."""
_RATES: Final = ("goodput", "throughput")
_THROUGH_ONE_LINK: Final = ("pair", "dumbbell", "star")
_UNITS: Final = {"s": "a length of time", "bit/s": "a rate", "B": "a number of bytes", "1": "a number"}
_NS: Final = 10**9


class State(StrEnum):
    """Whether a candidate meets a condition."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "undecided"


@dataclass(frozen=True, slots=True)
class Condition:
    """A limit of a metric."""

    metric: str
    at_least: bool
    limit: float
    """In the unit of the metric."""

    @property
    def text(self) -> str:
        """As a user writes it, with a readable number."""
        sign = ">=" if self.at_least else "<="
        return f"{self.metric} {sign} {number(self.limit, interface.METRICS[self.metric].unit)}"

    def allows(self, value: float) -> bool:
        """Whether a value keeps the limit."""
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True, slots=True)
class Held:
    """A condition of a candidate."""

    value: str
    """The candidate."""
    condition: str
    state: State
    median: float | None
    """Of the seeds."""
    p: float | None
    """Before a correction; `None` without a test."""

    @property
    def text(self) -> str:
        """The condition with the median, in words."""
        unit = interface.METRICS[self.condition.partition(" ")[0]].unit
        return f"{self.condition} (median {'none' if self.median is None else number(self.median, unit)})"


def parsed(texts: Iterable[str], plan: Plan) -> tuple[Condition, ...]:
    """The conditions of `--require`. Raises `UserError` for a text of another form, and for a limit out of reach."""
    made = tuple(_parsed(text) for text in texts)
    for one in made:
        _within_reach(one, plan)
    for one in made:
        for other in made:
            if one.metric == other.metric and one.at_least and not other.at_least and one.limit > other.limit:
                raise UserError(f"`--require`: {one.text} and {other.text} exclude each other")
    return made


def _parsed(text: str) -> Condition:
    found = _FORM.fullmatch(text)
    if found is None:
        raise UserError(
            f"`--require {text}`: write a metric, >= or <=, and a value, as in `saturation >= 90%`"
        )
    name, sign, value = found.groups()
    if name not in interface.METRICS:
        hint = suggest(name, interface.METRICS) or "; `tcpassay metrics` lists them"
        raise UserError(f"`--require {text}`: no such metric{hint}")
    unit = interface.METRICS[name].unit
    amount = quantity(value)
    allowed = (
        {_UNITS.get(unit, "a number"), "a number"} if "%" not in value else {_UNITS.get(unit, "a number")}
    )
    if not isinstance(amount.amount, Fraction) or amount.kind not in allowed:
        raise UserError(f"`--require {text}`: `{name}` is {_UNITS.get(unit, 'a number')}, unit {unit}")
    limit = float(amount.amount / (_NS if amount.kind == _UNITS["s"] else 1))
    return Condition(name, sign.startswith(">"), limit)


def _within_reach(one: Condition, plan: Plan) -> None:
    """Raises `UserError` for a limit that no run of the plan can keep."""
    place = Place(plan.file)
    if not one.at_least and one.limit < 0:
        raise UserError(f"`--require`: {one.text} is out of reach: no metric is below 0", place)
    if one.at_least and one.limit > 1 and one.metric.startswith(_SHARES):
        raise UserError(f"`--require`: {one.text} is out of reach: {one.metric} is 1 at most", place)
    if one.at_least and one.metric in _RATES:
        carried = [_rate(case.triples) for case in plan.cases]
        known = [rate for rate in carried if rate is not None]
        if known and len(known) == len(carried) and one.limit > max(known):
            most = number(max(known), "bit/s")
            raise UserError(
                f"`--require`: {one.text} is out of reach: the link of no case carries more than {most}",
                place,
            )


def _rate(triples: Mapping[str, object]) -> float | None:
    """The rate that all flows of a case share; `None` if it is not known from its settings."""
    defaults = table.parameters()
    if any(path.endswith("/link.rate") for path in triples):
        return None
    topology = show(triples.get("topology", defaults["topology"].default))
    amount = quantity(show(triples.get("link.rate", defaults["link.rate"].default))).amount
    if topology.partition(":")[0] not in _THROUGH_ONE_LINK or not isinstance(amount, Fraction):
        return None
    return float(amount)


def held(  # noqa: PLR0913 - what is tested, and how
    runs: Sequence[levels.Measured],
    of_case: Mapping[str, str],
    candidates: Collection[str],
    conditions: Iterable[Condition],
    level: float,
    *,
    facts: bool,
) -> list[Held]:
    """The state of each condition for each candidate; `of_case` has the candidate of each case.

    With `facts` all seeds give the same runs, and the values need no test.
    """
    made = []
    for condition in conditions:
        for value in candidates:
            among = [run for run in runs if of_case.get(run.case) == value]
            _complete(among, condition)
            made.append(_held(value, condition, _by_seed(among, condition.metric), level, facts=facts))
    return made


def _complete(runs: Sequence[levels.Measured], condition: Condition) -> None:
    """Raises `UserError` if a case has no value of the metric in any seed, while other cases have one."""
    known = {run.case for run in runs if run.metrics.get(condition.metric) is not None}
    without = next((run for run in runs if run.case not in known), None)
    if known and without is not None:
        where = ", ".join(f"{name} = {text}" for name, text in without.varied.items())
        raise UserError(
            f"`--require`: `{condition.metric}` has no value where {where}, so that {condition.text} cannot be judged "
            "there; ask about the other environments, or require another metric"
        )


def _by_seed(runs: Sequence[levels.Measured], metric: str) -> list[float]:
    """The mean over the cases of each seed that all of them have."""
    cases: dict[str, dict[int, float]] = {}
    for run in runs:
        value = run.metrics.get(metric)
        if value is not None:
            cases.setdefault(run.case, {})[run.seed] = value
    if not cases:
        return []
    seeds = set.intersection(*(set(of) for of in cases.values()))
    return [statistics.fmean(of[seed] for of in cases.values()) for seed in sorted(seeds)]


def _held(value: str, condition: Condition, values: Sequence[float], level: float, *, facts: bool) -> Held:
    if not values:
        return Held(value, condition.text, State.OPEN, None, None)
    median = statistics.median(values)
    if facts or all(one == condition.limit for one in values):
        state = State.HOLDS if condition.allows(median) else State.FAILS
        return Held(value, condition.text, state, median, None)
    differences = np.array([one - condition.limit for one in values if one != condition.limit])
    found = shift(differences)
    if found.p > level:
        return Held(value, condition.text, State.OPEN, median, found.p)
    state = State.HOLDS if (found.estimate > 0) == condition.at_least else State.FAILS
    return Held(value, condition.text, state, median, found.p)
