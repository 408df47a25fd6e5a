"""The verdict about a claim from its measured number, and about an experiment from all claims.

A claim is reproduced if all its conditions `reproduced` hold or, without any, if the number is at most the factor
`within` above or below that of the paper. Otherwise only the direction is reproduced if all conditions `direction`
hold.
An experiment is as well reproduced as the worst of its claims that were measured. Where its fault is planted, as in a
guest that has no such driver, even the best verdict is only that the mechanism was shown.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from fractions import Fraction

from tcpassay.plan import experiment_table, fields
from tcpassay.plan.quantity import quantity
from tcpassay.run.operators import COMPARE


class Verdict(StrEnum):
    """How well a claim is reproduced, in descending order."""

    REPRODUCED = "reproduced"
    SHOWN = "mechanism shown"
    DIRECTION = "direction only"
    NOT = "not reproduced"
    UNKNOWN = "not measured"


def amount(value: experiment_table.Quantity) -> float:
    """A number in the unit in which metrics are counted: s, B, bit/s, packets or 1."""
    if not isinstance(value, str):
        return float(value)
    meaning = quantity(value)
    if not isinstance(meaning.amount, Fraction):
        raise TypeError(value)  # the pattern of the model lets no other text pass
    return float(meaning.amount / (10**9 if meaning.kind == fields.TIME else 1))


def holds(value: float, conditions: Iterable[str]) -> bool:
    """Whether a number satisfies all conditions, as in `>= 5ms`."""
    for condition in conditions:
        op, limit = condition.split()
        bare = limit.removeprefix("-").replace(".", "", 1).isdigit()
        if not COMPARE[op](value, amount(float(limit) if bare else limit)):
            return False
    return True


def near(value: float, paper: float, factor: float) -> bool:
    """Whether a number is at most a factor above or below another one."""
    if paper <= 0 or value <= 0:
        return value == paper
    return paper / factor <= value <= paper * factor


def of_claim(claim: experiment_table.Claim, value: float | None) -> Verdict:
    """The verdict about a claim; the number is `None` if it was not measured."""
    if value is None:
        return Verdict.UNKNOWN
    if claim.reproduced:
        good = holds(value, claim.reproduced)
    else:
        good = (
            claim.paper is not None
            and claim.within is not None
            and near(value, amount(claim.paper), claim.within)
        )
    if good:
        return Verdict.REPRODUCED
    return Verdict.DIRECTION if claim.direction and holds(value, claim.direction) else Verdict.NOT


def of_experiment(verdicts: Sequence[Verdict], *, planted: bool = False) -> Verdict:
    """The worst verdict about a claim that was measured; `planted`: the fault of the experiment is planted."""
    order = list(Verdict)
    known = [one for one in verdicts if one is not Verdict.UNKNOWN]
    worst = max(known, key=order.index, default=Verdict.UNKNOWN)
    return Verdict.SHOWN if planted and worst is Verdict.REPRODUCED else worst
