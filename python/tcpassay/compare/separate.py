"""The smallest settings that separate the runs that differ from those that do not.

The first result is a subset of the settings that all differing runs share: the smallest one that excludes as many
identical runs as all shared settings together. If identical runs remain, the second result is the smallest sets of
further settings with which every run differs. Both describe the existing runs only; whether a setting is a cause is
decided by resetting it (`isolate`, `kernel compare`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from tcpassay.common import common

Values = Mapping[str, str]

_MOST_SETTINGS: Final = 3
"""Largest number of settings of a rule."""
_LEAST_RUNS: Final = 2
"""Minimum number of runs of a rule; agreement of fewer runs may be a coincidence."""
_MOST_TRIED: Final = 200_000
"""Bound on the number of tried sets, for plans with very many parameters."""

_ALL: Final = "all pairs differ"
_NONE: Final = "no parameter value is specific to these runs"
_ONE: Final = "only one run"


@dataclass(frozen=True, slots=True)
class Rule:
    """Settings with which every run differs."""

    settings: dict[str, str]
    runs: int
    """The number of runs that have them."""


@dataclass(frozen=True, slots=True)
class Separation:
    """What separates the runs that differ from the others."""

    different: int
    shared: dict[str, list[str]]
    """Parameters that all runs that differ have with one of these values."""
    alike: int
    """The number of all runs with `shared`, differing or not."""
    rules: tuple[Rule, ...]
    """Together with `shared`; empty if all runs with `shared` differ."""
    unexplained: int
    """The number of runs that differ and follow none of the rules, if there are rules."""

    @property
    def text(self) -> str:
        """In words: `stack.cc=dctcp (9 of 14 runs with that); all with link.loss=1% (4 runs)`."""
        if not self.alike:
            return _ONE
        if self.different == self.alike and not self.shared:
            return _ALL
        said = ", ".join(f"{name}={'|'.join(values)}" for name, values in self.shared.items())
        text = f"{said} ({self.different} of {self.alike} runs with that)" if said else _NONE
        rules = [
            f"{', '.join(f'{name}={value}' for name, value in rule.settings.items())} ({rule.runs} runs)"
            for rule in self.rules
        ]
        if rules:
            text += f"; {'of these ' if said else ''}all with {', or with '.join(rules)}"
            text += f"; {self.unexplained} others" if self.unexplained else ""
        return text


def separate(different: Sequence[Values], identical: Sequence[Values]) -> Separation:
    """What separates the runs `different` from `identical`; each is given by what varies between cases."""
    everything = [*different, *identical]
    names = {name for run in everything for name in run}
    if len(different) == 1 and len(names) > 1 and identical and len(identical) < len(names):
        # All values of a single run are shared, so that any of them may separate it by coincidence.
        return Separation(1, {}, 0, (), 0)
    shared = _fewest(common(different, everything), identical)
    beside = [run for run in identical if _has(run, shared)]
    rules: tuple[Rule, ...] = ()
    left: list[Values] = []
    if beside:
        rules, left = _rules(different, beside, frozenset(shared))
    return Separation(len(different), shared, len(different) + len(beside), rules, len(left) if rules else 0)


def _has(run: Values, settings: Mapping[str, Sequence[str]]) -> bool:
    return all(run.get(name) in values for name, values in settings.items())


def _fewest(shared: dict[str, list[str]], identical: Sequence[Values]) -> dict[str, list[str]]:
    """The smallest subset of the shared settings that excludes as many identical runs as all of them."""
    chosen: dict[str, list[str]] = {}
    beside = list(identical)
    while beside:
        # Among equally good ones the one with the fewest values, then in the order of the plan.
        counts = {name: sum(_has(run, {name: shared[name]}) for run in beside) for name in shared}
        name = min(counts, key=lambda one: (counts[one], len(shared[one])), default=None)
        if name is None or counts[name] == len(beside):
            break
        chosen[name] = shared[name]
        beside = [run for run in beside if _has(run, {name: shared[name]})]
    return chosen


def _rules(
    different: Sequence[Values], identical: Sequence[Values], shared: frozenset[str]
) -> tuple[tuple[Rule, ...], list[Values]]:
    """Rules that only runs of `different` follow, the shortest and most general first, and the runs without a rule."""
    rules: list[Rule] = []
    left = list(different)
    while left:
        found = _best(left, different, identical, shared)
        if found is None:
            break
        rules.append(found)
        left = [run for run in left if not _follows(run, found.settings)]
    return tuple(rules), left


def _best(
    left: Sequence[Values], different: Sequence[Values], identical: Sequence[Values], shared: frozenset[str]
) -> Rule | None:
    """The rule with the fewest settings, and among these the one that most runs follow."""
    terms = dict.fromkeys((name, value) for run in left for name, value in run.items() if name not in shared)
    where = {term: _mask(left, term) for term in terms}
    against = {term: _mask(identical, term) for term in terms}
    for size in range(1, _MOST_SETTINGS + 1):
        best, most = None, _LEAST_RUNS - 1
        for chosen in _sets(list(terms), size):
            covered, beside = -1, -1
            for term in chosen:
                covered &= where[term]
                beside &= against[term]
            if not beside and covered.bit_count() > most:
                best, most = chosen, covered.bit_count()
        if best is not None:
            settings = dict(best)
            return Rule(settings, sum(_follows(run, settings) for run in different))
    return None


def _sets(terms: list[tuple[str, str]], size: int) -> Iterator[tuple[tuple[str, str], ...]]:
    """Sets of terms of different parameters, up to a bound."""
    for number, chosen in enumerate(combinations(terms, size)):
        if number >= _MOST_TRIED:
            return
        if len({name for name, _ in chosen}) == size:
            yield chosen


def _mask(runs: Sequence[Values], term: tuple[str, str]) -> int:
    """The runs that have a setting, as a bit mask."""
    name, value = term
    return sum(1 << number for number, run in enumerate(runs) if run.get(name) == value)


def _follows(run: Values, settings: Mapping[str, str]) -> bool:
    return all(run.get(name) == value for name, value in settings.items())
