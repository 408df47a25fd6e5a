"""A description of the cases that a search will generate."""

from collections.abc import Iterator

from tcpassay.plan import fields, model
from tcpassay.plan.expand import show
from tcpassay.search.objective import Objective

_MOST_LISTED = 8
"""Maximum number of displayed values of a list."""


def lines(spec: model.PlanFile) -> Iterator[str]:
    """Lines about objective, generations, budget and genes of such a plan; none for other plans."""
    strategy = spec.strategy
    if isinstance(strategy, model.Search):
        yield f"looks for {Objective.of(strategy).words()}"
        how = (
            f"{strategy.population} cases drawn at random"
            if strategy.method == "random"
            else f"{strategy.population} cases made from the {strategy.population} best before it"
        )
        yield f"each further generation: {how}"
    else:
        return
    yield f"budget: {_budget(strategy.budget)}"
    for path, one in spec.axes.items():
        yield f"  {path}: {_axis(one)}"
    for name, sets in spec.groups.items():
        yield f"  {name}: {_some(list(sets))}"


def _budget(budget: model.Budget) -> str:
    said = [] if budget.runs is None else [f"{budget.runs:,} runs"]
    said += [] if budget.cpu_time is None else [f"{budget.cpu_time} of CPU time"]
    return " or ".join(said)


def _axis(one: model.Axis) -> str:
    match one:
        case model.Losses(most=most, among=among):
            return f"up to {most} lost packets among the first {among:,}"
        case model.Rates(count=count, interval=interval, start=start, end=end):
            return f"{count} rates from {show(start)} to {show(end)}, {interval} each"
        case model.Range(steps=None, start=start, end=end, scale=scale):
            return f"from {show(start)} to {show(end)}, {scale}"
        case model.Range(start=start, end=end):
            return f"from {show(start)} to {show(end)}, {one.steps} values"
        case list():
            return _some(one)
        case _:
            return f"{one.count} values drawn"


def _some(values: list[fields.Scalar] | list[str]) -> str:
    more = f", ... ({len(values)})" if len(values) > _MOST_LISTED else ""
    return ", ".join(show(value) for value in values[:_MOST_LISTED]) + more
