"""What the cases of a plan cover, counted by the independent verifier, and how large the plan is."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

from tcpassay.cover import generate, verify
from tcpassay.cover.space import Space
from tcpassay.plan import combine, model
from tcpassay.plan.read import Plan

_LARGE: Final = 2_000_000
"""Combinations of three beyond which a plan of another strategy than `t-way` is counted at strength 2 only."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large a plan is."""

    factors: int
    """Axes and groups of more than one level."""
    product: int
    """Combinations of their levels."""
    allowed: int
    """Those that the constraints allow."""
    cases: int
    refused: int
    """Of the cases, those that must be refused."""
    seeds: int
    repetitions: int

    @property
    def runs(self) -> int:
        """Every case with every seed, so often."""
        return self.cases * self.seeds * self.repetitions


def sizes(plan: Plan) -> Sizes:
    """How large the plan is; counted without making the product."""
    space = plan.suite.space
    return Sizes(
        factors=len(space.free),
        product=prod(space.sizes),
        allowed=generate.count(space),
        cases=len(plan.cases),
        refused=sum(case.expect == "refused" for case in plan.cases),
        seeds=len(plan.spec.seeds),
        repetitions=plan.spec.repetitions,
    )


def coverage(plan: Plan) -> verify.Report:
    """What the cases cover: what a `t-way` strategy promises, and for others all pairs and triples."""
    space = plan.suite.space
    if not space.parameters:  # nothing varies
        return verify.Report((), len(plan.cases))
    report = verify.verify_rows(space, plan.suite.rows, _counted(plan.spec, space))
    if plan.spec.strategy.kind == "t-way":
        return report
    # Other strategies try each invalid value once; what else is in that case proves nothing.
    return replace(report, lines=tuple(line for line in report.lines if not line.invalid))


def _counted(spec: model.PlanFile, space: Space) -> generate.TWay:
    strategy = combine.strategy_of(spec)
    if isinstance(strategy, generate.TWay):
        return strategy
    triples = combine.tuples((space.sizes[v] for v in space.free), 3)
    return generate.TWay(3 if triples <= _LARGE else 2)


def as_json(line: verify.Line) -> dict[str, Any]:
    """A line of a coverage table for a program."""
    return {
        "name": line.name,
        "strength": line.strength,
        "parameters": line.parameters,
        "possible": line.total,
        "covered": line.covered,
        "excluded": line.excluded,
        "missing": list(line.examples),
    }
