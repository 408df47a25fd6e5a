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
    # Runs are compared for each factor without its value. Numbers of the values are compared faster than texts.
    numbers: dict[tuple[str, str], int] = {}
    settings = []
    for run in traced:
        shown = {name: show(value) for name, value in run.case.varied.items()}
        settings.append((shown, tuple(numbers.setdefault(one, len(numbers)) for one in shown.items())))
    names = dict.fromkeys(name for shown, _ in settings for name in shown)
    return [said for name in names for said in _of(name, traced, settings)]


def _of(
    name: str, runs: Sequence[Run], settings: Sequence[tuple[Mapping[str, str], tuple[int, ...]]]
) -> list[str]:
    groups: dict[tuple[int, ...], dict[str, str]] = {}
    levels: dict[str, None] = {}
    for run, (shown, values) in zip(runs, settings, strict=True):
        level = shown.get(name)
        if level is None:
            continue
        levels.setdefault(level)
        at = list(shown).index(name)
        rest = (run.seed, *values[:at], *values[at + 1 :])
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
