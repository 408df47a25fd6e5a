"""Further cases of a comparison: of the plan's space, and random ones beyond it."""

import json
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from tcpassay.errors import UserError
from tcpassay.plan import model
from tcpassay.plan.expand import factors
from tcpassay.plan.read import Plan, read
from tcpassay.run.choose import choose
from tcpassay.trees import beyond

_STRONGEST: Final = 6
"""The largest strength of a covering array (`cover.generate.STRENGTHS`)."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A plan with further cases, and the ids of those that are to run."""

    plan: Plan
    chosen: frozenset[str]
    new: int
    """Number of new cases."""
    beyond: int = 0
    """How many of them have values that the plan does not have."""


def draws(plan: Plan, filters: Sequence[str], batch: int, words: Container[str] = ()) -> Iterator[Draw]:
    """Plans with more and more cases that fit the filters, each with all cases before it.

    Batches of the plan's space and random cases beyond it (`beyond.py`) take turns. A covering array is continued by
    those of higher strengths, which begin with it, in random order; random cases by further ones. After that, or with
    another strategy, and if no case beyond the space is accepted, the cases run with further seeds.

    Values with one of the `words` come first.
    """
    known = {case.id for case in plan.cases}
    larger, stated = plan, _Stated(plan, filters, words)
    within = _within(plan, filters, known, batch)
    while True:
        inside = next(within, None)
        if inside is not None:
            larger, ids = inside
            known.update(*ids)
            yield Draw(stated.added_to(larger), frozenset(known), len(ids))
        outside = stated.further(known, batch)
        if outside:
            known.update(*outside)
            yield Draw(stated.added_to(larger), frozenset(known), len(outside), len(outside))
        if inside is None and not outside:
            break
    seeds, plan = list(plan.spec.seeds), stated.added_to(larger)
    while True:
        seeds.append(max(seeds) + 1)
        plan = plan.with_seeds(list(seeds))
        yield Draw(plan, frozenset(known), 0)


def _within(
    plan: Plan, filters: Sequence[str], known: set[str], batch: int
) -> Iterator[tuple[Plan, list[list[str]]]]:
    """Larger plans of the same space, each with the ids of the next cases on all substrates."""
    for larger in _larger(plan):
        fitting = choose(larger, filters)
        fresh: dict[str, list[str]] = {}
        for case in larger.cases:
            if case.id not in known and case.script is None and (fitting is None or case.id in fitting):
                # Both kernels run a case.
                fresh.setdefault(json.dumps(case.triples, sort_keys=True), []).append(case.id)
        drawn = list(fresh.values())
        Random("reach").shuffle(drawn)  # noqa: S311 - the same draw each time
        for start in range(0, len(drawn), batch):
            # Others may have been drawn beyond the space meanwhile.
            if some := [ids for ids in drawn[start : start + batch] if ids[0] not in known]:
                yield larger, some


class _Stated:
    """The cases that were drawn beyond the space of a plan."""

    def __init__(self, plan: Plan, filters: Sequence[str], words: Container[str]) -> None:
        self._drawn: list[beyond.Drawn] = []
        fitting = choose(plan, filters)
        among = [
            case
            for case in plan.cases
            if case.script is None and case.expect == "done" and (fitting is None or case.id in fitting)
        ]
        deal = Random("beyond")  # noqa: S311 - the same draw each time
        kept = _named(plan, filters)
        self._draws = beyond.draws(plan, among, words, kept, deal) if among else iter(())

    def further(self, known: Container[str], batch: int) -> list[list[str]]:
        """The ids of up to `batch` new cases on all substrates."""
        found: list[list[str]] = []
        for settings, cases in self._draws:
            ids = [case.id for case in cases]
            if ids[0] not in known:
                self._drawn.append((settings, cases))
                found.append(ids)
            if len(found) == batch:
                break
        return found

    def added_to(self, plan: Plan) -> Plan:
        """A plan with these cases as well, but for those that it has itself."""
        own = {case.id for case in plan.cases}
        settings = [said for said, cases in self._drawn if cases[0].id not in own]
        cases = [case for _, cases in self._drawn for case in cases if cases[0].id not in own]
        return plan.with_cases(settings, cases) if cases else plan


def _larger(plan: Plan) -> Iterator[Plan]:
    strategy = plan.spec.strategy
    if isinstance(strategy, model.TWay):
        # The array of the plan's own strength may have cases that were not drawn before an interrupt.
        for strength in range(strategy.strength, _STRONGEST + 1):
            try:
                yield read(plan.text, plan.file, strength, plan.spec.substrates).with_seeds(plan.spec.seeds)
            except UserError:  # more combinations than a plan may have
                return
    elif isinstance(strategy, model.Random):
        count, before = strategy.count, len(plan.cases)
        while True:
            count *= 2
            spec = plan.spec.model_copy(update={"strategy": strategy.model_copy(update={"count": count})})
            larger = read(plan.resolved(spec), plan.file, None, plan.spec.substrates).with_seeds(
                plan.spec.seeds
            )
            if len(larger.cases) == before:
                return
            before = len(larger.cases)
            yield larger


def _named(plan: Plan, filters: Sequence[str]) -> frozenset[str]:
    """The parameters that filters name, by themselves or by their groups; drawn cases keep the values that fit."""
    found: set[str] = set()
    for name, equals, _ in (text.partition("=") for text in filters):
        if not equals:
            continue
        for factor, among in factors(plan.spec).items():
            if name in {factor, factor.rpartition(".")[2]}:
                found.update(path for level in among for path in level.triples)
    return frozenset(found)
