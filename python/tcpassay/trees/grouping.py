"""Runs pairs again with event logs, and groups them by the first event that differs."""

from collections.abc import Callable, Sequence
from typing import Final

from tcpassay.trees.causes import Causes, Search
from tcpassay.trees.groups import Group, groups
from tcpassay.trees.pair_runner import experiment_of, kind_shown, pair_runner
from tcpassay.trees.pairs import TreePair

MOST: Final = 60
"""Maximum number of pairs that are run again."""
_LEAST: Final = 2


def grouped(
    where: Search,
    why: Causes,
    different: Sequence[TreePair],
    identical: Sequence[TreePair],
    watch: Callable[[str], None],
) -> list[Group]:
    """The groups of the pairs that settings do not explain; empty if each pair has a cause with settings.

    Of each case one pair is run again, without a budget; pairs that are stored are not.
    """
    open_ = [pair for pair in different if not pair.head.get("script") and not _explained(pair, why)]
    wanted = list({str(pair.head["case"]): pair for pair in reversed(open_)}.values())[::-1][:MOST]
    if len(wanted) < _LEAST or why.stopped == "no budget":
        return []
    watch(f"first differences of {len(wanted)} pairs")
    with pair_runner(where) as runner:
        runner.watch = lambda count: watch(f"first differences: {count} of {len(wanted)} pairs")
        experiments = [experiment_of(where, runner, pair, "") for pair in wanted]
        made = runner.run([experiment.job(whole, 0) for experiment, whole in experiments])
    kinds = [(pair, kind_shown(ran)) for pair, ran in zip(wanted, made, strict=True)]
    return groups([(pair, kind) for pair, kind in kinds if kind is not None], identical)


def _explained(pair: TreePair, why: Causes) -> bool:
    return any(one.triples and any(pair is other for other in one.explains) for one in why.found)
