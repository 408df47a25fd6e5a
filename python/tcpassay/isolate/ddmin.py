"""Delta debugging: reduces a set of items with an effect to a subset of which every item is necessary for the effect.

The algorithm is ddmin (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2),
2002, figure 5) with complements only and two additions. An item may require other items: `close` removes from a
subset the items whose requirements are missing, so that only valid subsets are tested. Subsets are passed in batches,
and the first subset of a batch that has the effect is taken. Several subsets can therefore be tested at the same time
without a change of the result.

This module does not depend on TCP, runs or files.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")

First = Callable[[Sequence[frozenset[T]]], int | None]
"""The index of the first of these subsets that has the effect; `None` if none has it."""
Close = Callable[[frozenset[T]], frozenset[T] | None]
"""The largest valid subset of this set, as far as it is known; `None` if there is none."""


def as_it_is(subset: frozenset[T]) -> frozenset[T]:
    """The `close` of items that do not need each other."""
    return subset


def ddmin(items: Sequence[T], first: First[T], close: Close[T] = as_it_is) -> tuple[T, ...]:
    """A subset of `items` that has the effect, in their order; all items together must have it.

    The subset is 1-minimal: without any one of its items, and the items that require it, the effect is gone. The first
    items are removed first, so that the least likely causes should come first.
    """
    current = tuple(items)
    parts, start = 2, 0
    while current:
        parts = min(parts, len(current))
        candidates = list(_candidates(current, parts, start, close))
        place = first([kept for kept, _ in candidates]) if candidates else None
        if place is not None:
            kept, removed = candidates[place]
            current = tuple(item for item in current if item in kept)
            # The parts before the removed one were necessary in the last test. They are tried again last.
            parts, start = max(parts - 1, 2), removed
        elif parts < len(current):
            parts, start = min(2 * parts, len(current)), 0
        else:
            break
    return current


def _candidates(
    current: tuple[T, ...], parts: int, start: int, close: Close[T]
) -> Iterator[tuple[frozenset[T], int]]:
    """All items but those of one part, for each part from the part `start` on, with the number of that part.

    Parts alone are not tried: of two parts they are the same, and of more one is hardly ever enough.
    """
    whole, seen = frozenset(current), set[frozenset[T]]()
    chunks = list(enumerate(split(current, parts)))
    for number, chunk in [*chunks[start:], *chunks[:start]]:
        closed = close(whole - frozenset(chunk))
        if closed is not None and closed != whole and closed not in seen:
            seen.add(closed)
            yield closed, number


def split(items: Sequence[T], parts: int) -> list[Sequence[T]]:
    """The items in `parts` sequences of about equal length, none of which is empty if there are enough items."""
    ends = [round(part * len(items) / parts) for part in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(ends) if start < end]


def spared(items: Sequence[T], close: Close[T] = as_it_is) -> list[tuple[T, frozenset[T] | None]]:
    """For each item, the set without it and without the items that depend on it: the sets that a proof must test."""
    whole = frozenset(items)
    return [(item, close(whole - {item})) for item in items]
