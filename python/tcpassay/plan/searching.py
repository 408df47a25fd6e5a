"""Consistency checks of plans with the strategy `search`, and of axes that only it can use."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from tcpassay.errors import Problem
from tcpassay.interface import METRICS, Direction
from tcpassay.plan import document, model
from tcpassay.plan.document import Document
from tcpassay.plan.quantity import quantity

_FINEST: Final = "_1us"
"""Metrics over intervals of a microsecond are computed from the log of deliveries."""


def problems(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """All problems of the strategy and its axes."""
    strategy = spec.strategy
    if not isinstance(strategy, model.Search):
        yield from _only_searched(spec, doc)
        return
    yield from _budget(strategy.budget, doc)
    yield from _unfit(spec, strategy.kind, doc)
    yield from _metric(spec, strategy, doc)
    yield from _finding(spec, strategy, doc)
    if spec.negative:
        message = "`negative`: a search has no cases that must be refused; test them in a plan of their own"
        yield Problem(message, doc.place("negative"))


def _only_searched(spec: model.PlanFile, doc: Document) -> Iterator[Problem]:
    """Axes without a number of values."""
    for path, one in spec.axes.items():
        if isinstance(one, model.Range) and one.steps is None:
            message = (
                f"`axes.{path}.steps` is missing; it is needed: how many values "
                "(only the strategy `search` uses every value between the ends)"
            )
            yield Problem(message, doc.place("axes", path))
        elif isinstance(one, model.Losses | model.Rates):
            message = (
                f"`axes.{path}.sequence` = `{one.sequence}`: only the strategy `search` has sequences, "
                f"and this is `{spec.strategy.kind}`"
            )
            yield Problem(message, doc.place("axes", path, "sequence"))


def _budget(budget: model.Budget, doc: Document) -> Iterator[Problem]:
    if budget.runs is None and budget.cpu_time is None:
        message = "`strategy.budget` is empty; allowed is a number of `runs`, a `cpu_time`, or both"
        yield Problem(message, doc.place("strategy", "budget"))
    if budget.cpu_time is not None:
        amount = quantity(budget.cpu_time).amount
        if not isinstance(amount, Fraction) or amount <= 0:
            message = f"`strategy.budget.cpu_time` = `{budget.cpu_time}`: allowed is a length of time above 0"
            yield Problem(message, doc.place("strategy", "budget", "cpu_time"))


def _unfit(spec: model.PlanFile, kind: str, doc: Document) -> Iterator[Problem]:
    """Parts of a plan that need cases that are known before it runs."""
    if not any(_several(one) for one in spec.axes.values()) and not any(
        len(sets) > 1 for sets in spec.groups.values()
    ):
        message = f"`strategy.kind` = `{kind}`: the plan has no free parameters; it needs an axis with several values"
        yield Problem(message, doc.place("strategy"))
    if len(spec.substrates) > 1:
        message = f"`substrates`: `{kind}` compares the results of its cases, which needs a single substrate"
        yield Problem(message, doc.place("substrates"))
    if spec.figure:
        message = (
            f"`figure`: the cases of `{kind}` are not known before it runs; draw figures with the plan of a case that "
            "it writes"
        )
        yield Problem(message, doc.place("figure", 0))
    if spec.case:
        yield Problem(
            f"`case`: `{kind}` derives its cases itself; give a value that it is to try to an axis",
            doc.place("case", 0),
        )
    if spec.scripts:
        yield Problem(
            f"`scripts`: `{kind}` cannot change a script; run them in a plan of their own",
            doc.place("scripts", 0),
        )


def _several(one: model.Axis) -> bool:
    return not isinstance(one, list) or len(one) > 1


def _metric(spec: model.PlanFile, strategy: model.Search, doc: Document) -> Iterator[Problem]:
    name = strategy.metric
    if name is None:
        if strategy.finding is None:
            message = "`strategy.metric` or `strategy.finding` is needed: the objective of the search"
            yield Problem(message, doc.place("strategy"))
        if strategy.worst is not None:
            yield Problem(
                "`strategy.worst` needs `strategy.metric`, which is missing",
                doc.place("strategy", "worst"),
            )
        return
    place = doc.place("strategy", "metric")
    if name not in METRICS:
        hint = document.suggest(name, METRICS) or "; `tcpassay metrics` lists them"
        yield Problem(f"`strategy.metric` = `{name}`: no such metric{hint}", place)
        return
    row = METRICS[name]
    if strategy.worst is None and row.direction is Direction.NEITHER:
        message = (
            f"`strategy.metric` = `{name}`: the metric has no preferred direction; `strategy.worst` must be "
            "`least` or `greatest`"
        )
        yield Problem(message, place)
    if name.endswith(_FINEST) and not spec.collect.deliveries:
        message = (
            f"`strategy.metric` = `{name}` requires the log of deliveries: `deliveries = true` in [collect]"
        )
        yield Problem(message, place)


def _finding(spec: model.PlanFile, strategy: model.Search, doc: Document) -> Iterator[Problem]:
    name = strategy.finding
    if name is None:
        return
    from tcpassay.judge.registry import ORACLES  # noqa: PLC0415 - polars is most of the start-up time

    place = doc.place("strategy", "finding")
    if name != "any" and name not in ORACLES:
        hint = document.suggest(name, ORACLES)
        yield Problem(
            f"`strategy.finding` = `{name}`: no such oracle; allowed are any, {', '.join(ORACLES)}{hint}",
            place,
        )
    elif (
        spec.oracles is False
        or spec.oracles == []
        or (isinstance(spec.oracles, list) and name not in {"any", *spec.oracles})
    ):
        yield Problem(f"`strategy.finding` = `{name}`: `oracles` excludes this oracle", place)
