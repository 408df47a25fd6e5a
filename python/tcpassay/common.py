"""What some runs have in common that the others do not: the values that may be the cause of what was found in them."""

from collections.abc import Mapping, Sequence
from typing import Final

_EACH: Final = 4
"""Runs for each of several values that the runs have, for the values to be told: several values of a few runs are a
coincidence."""

Values = Mapping[str, str]


def common(having: Sequence[Values], runs: Sequence[Values]) -> dict[str, list[str]]:
    """The parameters in which the runs `having` differ from the rest of `runs`, with the values that they have."""
    names = dict.fromkeys(name for run in runs for name in run)
    found = {}
    for name in names:
        if any(name not in run for run in having):
            continue
        values = list(dict.fromkeys(run[name] for run in having))
        few = len(values) == 1 or _EACH * len(values) <= len(having)
        if few and len(values) < len({run.get(name) for run in runs}):
            found[name] = values
    return found


def words(having: Sequence[Values], runs: Sequence[Values]) -> str:
    """The same as text, with the number of runs that have these values: `stack.cc=reno (2 of 3 runs with that)`."""
    names = dict.fromkeys(name for run in runs for name in run)
    if len(having) == 1 and len(names) > _EACH:
        return "only one run"  # every value of it is shared
    parts = common(having, runs)
    if not parts:
        return "no setting that only they have"
    alike = [run for run in runs if all(run.get(name) in values for name, values in parts.items())]
    said = ", ".join(f"{name}={'|'.join(values)}" for name, values in parts.items())
    return f"{said} ({len(having)} of {len(alike)} runs with that)"
