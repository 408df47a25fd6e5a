"""Which of the changed lines of two kernels the cases of a comparison executed, and further cases that may do so."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.gcov.catalogue import Bits, Catalogue
from tcpassay.gcov.changed import Place, Tree, functions, places
from tcpassay.isolate.runner import Budget
from tcpassay.kernel import store
from tcpassay.plural import plural
from tcpassay.trees.beyond import words_of
from tcpassay.trees.drawn import Draw
from tcpassay.trees.pairs import TreePair

Kernels = tuple[store.Kernel, store.Kernel]
_BATCH: Final = 8
"""Cases that are drawn together; a multiple of it is drawn for more jobs."""


@dataclass(frozen=True, slots=True)
class PlaceRuns:
    """A changed place and the cases that executed it."""

    place: Place
    inside: tuple[str, ...]
    """The functions of its counted lines."""
    cases: int
    """Cases of which a run on either kernel executed one of its lines."""

    @property
    def words(self) -> str:
        """The place: file, lines, and what it is."""
        place = self.place
        lines = str(place.first) if place.first == place.last else f"{place.first}-{place.last}"
        used = f"{', '.join(place.uses[:3])}, used in " if place.uses else ""
        where = f" ({used}{', '.join(self.inside[:3])})" if self.inside else ""
        removed = " of base" if place.on == "base" else ""
        return f"{place.file}:{lines}{removed}{where}"


@dataclass(frozen=True)
class Executed:
    """The changed places of two kernels with counters."""

    places: tuple[PlaceRuns, ...]
    """Those with counters."""
    silent: tuple[Place, ...]
    """Those without: declarations, and what is compiled out or merged with other lines."""
    lines: tuple[tuple[int, int], tuple[int, int]]
    """Of BASE and of HEAD: executed lines, and all changed lines with counters."""
    cases: int
    drawn: int = 0
    """Cases that were drawn besides those of the plan."""
    beyond: int = 0
    """How many of them have values that the plan does not have."""
    ended: str = ""
    """Why no further cases were drawn."""

    @property
    def missed(self) -> list[PlaceRuns]:
        """The places that no case executed."""
        return [one for one in self.places if not one.cases]

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        sides = {
            side: {"executed": some, "lines": all_}
            for side, (some, all_) in zip(("base", "head"), self.lines, strict=True)
        }
        return {
            **sides,
            "places": [
                {
                    "file": one.place.file,
                    "first": one.place.first,
                    "last": one.place.last,
                    "on": one.place.on,
                    "functions": list(one.inside),
                    "uses": list(one.place.uses),
                    "cases": one.cases,
                }
                for one in self.places
            ],
            "without_counters": [f"{one.file}:{one.first}" for one in self.silent],
            "drawn": self.drawn,
            "beyond": self.beyond,
            "ended": self.ended,
        }

    def lines_of_text(self) -> Iterator[tuple[str, str]]:
        """What is said about them, each line with its style."""
        if not self.places and not self.silent:
            yield "the counted sources (TCP, queue disciplines and their headers) do not differ", "yellow"
            return
        some, all_ = (sum(of) for of in zip(*self.lines, strict=True))
        reached = len(self.places) - len(self.missed)
        style = "bold yellow" if self.missed or not self.places else "bold"
        (base, of_base), (head, of_head) = self.lines
        places = f"in {reached} of {plural(len(self.places), 'changed place')}"
        sides = f"base {base} of {of_base}, head {head} of {of_head}"
        yield f"Changed lines: {some} of {all_} executed ({sides}), {places}", style
        for one in self.places:
            said = (
                f"executed in {one.cases} of {plural(self.cases, 'case')}" if one.cases else "never executed"
            )
            yield f"   {one.words}: {said}", "" if one.cases else "yellow"
        if self.silent:
            named = ", ".join(f"{one.file}:{one.first}" for one in self.silent[:4])
            more = ", ..." if len(self.silent) > 4 else ""  # noqa: PLR2004 - what fits a line
            yield f"   without counters (declarations, or not compiled): {named}{more}", ""
        if self.drawn or self.ended:
            outside = f", {self.beyond} of them beyond the values of the plan" if self.beyond else ""
            yield f"   {plural(self.drawn, 'further case')} drawn (--reach){outside}: {self.ended}", ""
        elif self.missed:
            yield "   `--reach 10min` draws further cases until they are executed", ""


class Changes:
    """The changed places of two kernels with counters."""

    def __init__(self, kernels: Kernels) -> None:
        self.trees = tuple(_tree(kernel) for kernel in kernels)
        found = places(*self.trees)
        self.counted = [one for one in found if one.counted]
        self.silent = tuple(one for one in found if not one.counted)

    @property
    def words(self) -> frozenset[str]:
        """The words in the names of the changed files, functions and macros."""
        base, head = self.trees
        return words_of(
            [
                text
                for place in self.counted
                for text in (
                    place.file,
                    *place.uses,
                    *functions(head, place.head),
                    *functions(base, place.base),
                )
            ]
        )

    def executed(
        self, pairs: Sequence[TreePair], drawn: int = 0, outside: int = 0, ended: str = ""
    ) -> Executed:
        """The places that the runs of pairs executed."""
        base, head = self.trees
        by_case: dict[str, tuple[Bits, Bits]] = {}
        for pair in pairs:
            before = by_case.get(pair.head["case"], (0, 0))
            sides = zip((base, head), (pair.base, pair.head), before, strict=True)
            bits = [old | _bits(tree.catalogue, row.get("covered")) for tree, row, old in sides]
            by_case[pair.head["case"]] = (bits[0], bits[1])
        of_places = [
            PlaceRuns(
                place,
                tuple(dict.fromkeys((*functions(head, place.head), *functions(base, place.base)))),
                sum(
                    base.executed(place.base, of_base) or head.executed(place.head, of_head)
                    for of_base, of_head in by_case.values()
                ),
            )
            for place in self.counted
        ]
        every = [0, 0]
        for some in by_case.values():
            every = [old | new for old, new in zip(every, some, strict=True)]
        lines = [
            frozenset(line for place in self.counted for line in getattr(place, side))
            for side in ("base", "head")
        ]
        counts = [
            (sum(tree.executed([line], bits) for line in of), len(of))
            for tree, bits, of in zip(self.trees, every, lines, strict=True)
        ]
        return Executed(
            tuple(of_places), self.silent, (counts[0], counts[1]), len(by_case), drawn, outside, ended
        )


def _tree(kernel: store.Kernel) -> Tree:
    notes = kernel.notes or Path()
    return Tree(notes, Catalogue.read(notes / store.CATALOGUE))


def _bits(catalogue: Catalogue, text: str | None) -> Bits:
    return catalogue.decode(text) if text else 0


def changes_of(kernels: Kernels) -> Changes | None:
    """The changed places, if both kernels have counters."""
    return Changes(kernels) if all(kernel.notes is not None for kernel in kernels) else None


def how_to_count(kernels: Kernels) -> str:
    """What to do so that the executed lines of two kernels without counters are counted."""
    plain = [kernel for kernel in kernels if kernel.notes is None]
    twins = {kernel.name: _twin(kernel) for kernel in plain}
    names = " and ".join(f"`{kernel.name}`" for kernel in plain)
    lack = f"{names} {'has' if len(plain) == 1 else 'have'} no counters"
    if all(twins.values()):
        wanted = " ".join(twins.get(kernel.name) or kernel.name for kernel in kernels)
        return f"{lack}; `tcpassay kernel compare {wanted}` counts"
    return (
        f"{lack}; build both with `tcpassay kernel build ... --coverage` as well (half a minute after the plain "
        "kernel), and compare those"
    )


def _twin(kernel: store.Kernel) -> str | None:
    """The name of a kernel with counters of the same source and patches."""
    return next(
        (
            other.name
            for other in store.kernels()
            if other.notes is not None and (other.source, other.series) == (kernel.source, kernel.series)
        ),
        None,
    )


def budget_of(text: str) -> Budget:
    """`10min` of real time or a number of runs. Raises `UserError`."""
    with contextlib.suppress(UserError):
        made = Budget.of(text)
        if made.runs or made.seconds:
            return made
    raise UserError(f"`--reach {text}`: give a time, as `60s` or `10min`, or a number of runs, as `200`")


def reach(
    changes: Changes,
    pairs: Callable[[], Sequence[TreePair]],
    more: Callable[[], Draw | None],
    budget: Budget,
    clock: Callable[[], float] = time.monotonic,
) -> Executed:
    """Runs further cases until they execute all changed places, or the budget ends.

    `more` runs a draw and returns it, or `None` if it was interrupted; `pairs` are those so far.
    """
    began, before, drawn, outside = clock(), len(pairs()), 0, 0
    while True:
        made = pairs()
        told = changes.executed(made, drawn, outside)
        if not told.missed:
            ended = "all changed places are executed" if told.places else "no changed place has a counter"
            return replace(told, ended=ended)
        over = budget.seconds is not None and clock() - began >= budget.seconds
        if over or (budget.runs is not None and 2 * (len(made) - before) >= budget.runs):
            return replace(told, ended="the budget is spent")
        new = more()
        if new is None:
            return changes.executed(pairs(), drawn, outside, "interrupted")
        drawn += new.new
        outside += new.beyond


def batch_of(jobs: int) -> int:
    """The number of cases that are drawn together."""
    return _BATCH * max(1, jobs // 4)
