"""The smallest settings with which the first event that differs between two kernels is of the kind of a group."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tcpassay.isolate.runner import ExhaustedError
from tcpassay.trees.causes import Search, TreeCause, reduced, suspicion_of
from tcpassay.trees.examples import MOST_SHOWN
from tcpassay.trees.groups import Group
from tcpassay.trees.pair_runner import PairRunner, experiment_of, pair_runner
from tcpassay.trees.pairs import TreePair


def smallest(
    where: Search, groups: Sequence[Group], identical: Sequence[TreePair], watch: Callable[[str], None]
) -> list[Group]:
    """The groups with the smallest settings of the first of them; the budget of `where` holds for each."""
    if not groups or where.budget.runs == 0 or where.budget.seconds == 0:
        return list(groups)
    made = []
    with pair_runner(where) as runner:
        for number, group in enumerate(groups[:MOST_SHOWN], 1):
            said = f"settings of group {number} of {min(len(groups), MOST_SHOWN)}"
            runner.watch = lambda count, said=said: watch(f"{said}, {count} pairs")  # type: ignore[misc]
            runner.begin(where.budget)
            others = [pair for other in groups if other is not group for pair in other.pairs]
            made.append(replace(group, smallest=_smallest(where, runner, group, [*others, *identical])))
    return [*made, *groups[MOST_SHOWN:]]


def _smallest(
    where: Search, runner: PairRunner, group: Group, others: Sequence[TreePair]
) -> TreeCause | None:
    """The smallest settings of the example of a group; `None` if its first difference is another one this time."""
    pair = group.example
    experiment, whole = experiment_of(where, runner, pair, group.kind)
    try:
        if not experiment.rates([whole])[0].present:
            return None
    except ExhaustedError:
        return None
    return reduced(experiment, whole, suspicion_of(whole, group.pairs, others), pair)
