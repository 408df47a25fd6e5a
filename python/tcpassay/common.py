"""Parameter values that some runs have in common and the other runs do not have: possible causes of their findings."""

from collections.abc import Mapping, Sequence
from typing import Final

_EACH: Final = 4
"""Minimum number of runs per value. Several values of few runs are a coincidence and are not listed."""

Values = Mapping[str, str]


def common(having: Sequence[Values], runs: Sequence[Values]) -> dict[str, list[str]]:
    """The parameters in which the runs `having` differ from the rest of `runs`, with their values."""
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
    """The values as text with the number of runs: `stack.cc=reno (2 of 3 runs with that)`."""
    names = dict.fromkeys(name for run in runs for name in run)
    if len(having) == 1 and len(names) > _EACH:
        return "only one run"  # all values are shared
    parts = common(having, runs) or _only(having, runs)
    if not parts:
        return "no parameter value is specific to these runs"
    alike = [run for run in runs if all(run.get(name) in values for name, values in parts.items())]
    said = ", ".join(f"{name}={'|'.join(values)}" for name, values in parts.items())
    return f"{said} ({len(having)} of {len(alike)} runs with that)"


def _only(having: Sequence[Values], runs: Sequence[Values]) -> dict[str, list[str]]:
    """The first parameter whose few values in the runs `having` no other run has, although each has few runs."""
    for name in dict.fromkeys(name for run in having for name in run):
        values = list(dict.fromkeys(run.get(name, "") for run in having))
        alike = sum(run.get(name, "") in values for run in runs)
        if len(having) > 1 and len(values) < _EACH and alike == len(having) < len(runs):
            return {name: values}
    return {}
