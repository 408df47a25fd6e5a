"""Values of a factor that gave the same runs: the parameter had no effect, or none between these values."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tcpassay.plan.expand import show
from tcpassay.run.result import Run

MOST: Final = 6
"""Maximum number of values in a sentence."""


def sentences(runs: Sequence[Run]) -> list[str]:
    """A sentence for each set of values of a factor whose runs are all identical, in all cases with them.

    Runs are identical if they processed the same events; only deterministic substrates say so.
    """
    traced = [run for run in runs if run.done and run.trace]
    names = dict.fromkeys(name for run in traced for name in run.case.varied)
    return [said for name in names for said in _of(name, traced)]


def _of(name: str, runs: Sequence[Run]) -> list[str]:
    groups: dict[tuple[object, ...], dict[str, str]] = {}
    levels: dict[str, None] = {}
    for run in runs:
        if name not in run.case.varied:
            continue
        level = show(run.case.varied[name])
        levels.setdefault(level)
        rest = (run.seed, *((other, show(v)) for other, v in run.case.varied.items() if other != name))
        groups.setdefault(rest, {})[level] = run.trace
    classes: list[list[str]] = []
    for level in levels:
        alike = next((one for one in classes if _alike(one[0], level, groups.values())), None)
        if alike is None:
            classes.append([level])
        else:
            alike.append(level)
    if len(levels) > 1 and len(classes) == 1:
        return [f"All values of `{name}` gave the same runs: it has no effect here"]
    return [f"`{name}`: {_listed(one)} gave the same runs" for one in classes if len(one) > 1]


def _alike(first: str, second: str, groups: Iterable[Mapping[str, str]]) -> bool:
    """Whether two values gave the same runs wherever both were run, at least once."""
    both = [one for one in groups if first in one and second in one]
    return bool(both) and all(one[first] == one[second] for one in both)


def _listed(levels: Sequence[str]) -> str:
    shown = ", ".join(levels[:MOST])
    return shown if len(levels) <= MOST else f"{shown} and {len(levels) - MOST} more"
