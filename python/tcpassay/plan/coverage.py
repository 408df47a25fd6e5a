"""The coverage of the cases of a plan, counted by the independent verifier, and the size of the plan."""

from dataclasses import dataclass, replace
from math import prod
from typing import Final

from tcpassay.cover import generate, verify
from tcpassay.cover.space import Space
from tcpassay.plan import combine, model
from tcpassay.plan.read import Plan

_LARGE: Final = 2_000_000
"""A plan with more combinations of three parameters and another strategy than `t-way` is counted at strength 2 only."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of a plan."""

    factors: int
    """Number of axes and groups with several levels."""
    product: int
    """Number of combinations of their levels."""
    allowed: int
    """Number of combinations that the constraints allow."""
    cases: int
    refused: int
    """Number of cases that must be refused."""
    seeds: int
    repetitions: int

    @property
    def runs(self) -> int:
        """Number of runs: cases times seeds times repetitions."""
        return self.cases * self.seeds * self.repetitions


def sizes(plan: Plan) -> Sizes:
    """The size of the plan, computed without generating all combinations."""
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
    """The coverage of the cases.

    At the strengths of a `t-way` strategy, for other strategies of all pairs and triples.
    """
    space = plan.suite.space
    if not space.parameters:  # no parameter varies
        return verify.Report((), len(plan.cases))
    report = verify.verify_rows(space, plan.suite.rows, _counted(plan.spec, space))
    if plan.spec.strategy.kind == "t-way":
        return report
    # Other strategies use each invalid value in one case, whose other values prove nothing.
    return replace(report, lines=tuple(line for line in report.lines if not line.invalid))


def _counted(spec: model.PlanFile, space: Space) -> generate.TWay:
    strategy = combine.strategy_of(spec)
    if isinstance(strategy, generate.TWay):
        return strategy
    triples = combine.tuples((space.sizes[v] for v in space.free), 3)
    return generate.TWay(3 if triples <= _LARGE else 2)


def as_json(line: verify.Line) -> dict[str, object]:
    """A line of the coverage table as JSON."""
    return {
        "name": line.name,
        "strength": line.strength,
        "parameters": line.parameters,
        "possible": line.total,
        "covered": line.covered,
        "excluded": line.excluded,
        "missing": list(line.examples),
    }
