"""Runs pairs again with event logs, and groups them by the first event that differs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.messages import Outcome
from tcpassay.recording import Recording
from tcpassay.results import Results
from tcpassay.run.pool import Pool
from tcpassay.run.replay import request_again, spec_of
from tcpassay.run.settings import limits_of
from tcpassay.scratch import folder as scratch_folder
from tcpassay.trees.causes import Causes
from tcpassay.trees.groups import Group, Kind, groups, kind_of
from tcpassay.trees.pairs import TreePair

MOST: Final = 60
"""Maximum number of pairs that are run again."""
_LEAST: Final = 2


def grouped(  # noqa: PLR0913, PLR0917 - the results, and what is known of them
    results: Results,
    why: Causes,
    different: Sequence[TreePair],
    identical: Sequence[TreePair],
    jobs: int,
    watch: Callable[[str], None],
) -> list[Group]:
    """The groups of the pairs that settings do not explain; empty if each pair has a cause with settings.

    Of each case one pair is run again.
    """
    open_ = [pair for pair in different if not pair.head.get("script") and not _explained(pair, why)]
    wanted = list({str(pair.head["case"]): pair for pair in reversed(open_)}.values())[::-1][:MOST]
    if len(wanted) < _LEAST or why.stopped == "no budget":
        return []
    watch(f"first differences of {len(wanted)} pairs")
    kinds = _kinds(results, wanted, jobs)
    return groups([(pair, kind) for pair, kind in kinds if kind is not None], identical)


def _explained(pair: TreePair, why: Causes) -> bool:
    return any(one.triples and any(pair is other for other in one.explains) for one in why.found)


def _kinds(results: Results, pairs: Sequence[TreePair], jobs: int) -> list[tuple[TreePair, Kind | None]]:
    spec, _ = spec_of(results)
    with scratch_folder() as home:
        places = [(home / f"{number}-base", home / f"{number}-head") for number in range(len(pairs))]
        requests = [
            request_again(results.folder, run, spec, place)
            for pair, both in zip(pairs, places, strict=True)
            for run, place in zip((pair.base, pair.head), both, strict=True)
        ]
        outcomes: dict[int, str] = {}
        for some in Pool(jobs, limits_of(spec)).run(requests):
            outcomes |= {index: answer.outcome for index, answer in some}
        return [
            (pair, kind_of_runs(*both, (outcomes[2 * number], outcomes[2 * number + 1])))
            for number, (pair, both) in enumerate(zip(pairs, places, strict=True))
        ]


def kind_of_runs(base: Path, head: Path, outcomes: tuple[str, str]) -> Kind | None:
    """The kind of the first difference of two runs in folders; `None` if their event logs are identical."""
    if set(outcomes) != {Outcome.DONE}:
        return Kind(f"{outcomes[0]} on the first kernel, {outcomes[1]} on the second")
    try:
        return kind_of(Recording.open(base), Recording.open(head))
    except UserError as error:
        return Kind(f"unknown: {error}")
