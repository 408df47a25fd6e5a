"""Delta debugging on artificial effects, compared with an exhaustive search."""

import itertools
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from tcpassay.isolate.ddmin import ddmin, spared, split

Set = frozenset[int]
Has = Callable[[Set], bool]


def first_of(has: Has, tried: list[Set] | None = None) -> Callable[[Sequence[Set]], int | None]:
    """The first of some sets that has the effect, one at a time."""

    def first(candidates: Sequence[Set]) -> int | None:
        for place, candidate in enumerate(candidates):
            if tried is not None:
                tried.append(candidate)
            if has(candidate):
                return place
        return None

    return first


def subsets(items: Sequence[int]) -> list[Set]:
    return [frozenset(c) for n in range(len(items) + 1) for c in itertools.combinations(items, n)]


causes = st.lists(st.frozensets(st.integers(0, 7), max_size=5), min_size=1, max_size=3)


@given(causes)
def test_the_answer_for_a_monotone_effect_is_one_of_the_smallest_causes(
    several: list[Set],
) -> None:
    def has(tried: Set) -> bool:
        return any(cause <= tried for cause in several)

    items = range(8)
    found = frozenset(ddmin(items, first_of(has)))
    by_hand = [one for one in subsets(items) if has(one) and not any(has(one - {item}) for item in one)]
    assert found in by_hand


@given(st.frozensets(st.integers(0, 11), max_size=6))
def test_a_single_cause_is_found_exactly(cause: Set) -> None:
    assert frozenset(ddmin(range(12), first_of(lambda tried: cause <= tried))) == cause


@given(st.frozensets(st.frozensets(st.integers(0, 5))))
def test_the_answer_has_the_effect_and_no_unnecessary_item(having: frozenset[Set]) -> None:
    """Also when more items hide the effect again, as when a second fault ends the run."""
    whole = frozenset(range(6))
    found = frozenset(ddmin(range(6), first_of(lambda tried: tried == whole or tried in having)))
    assert found == whole or found in having
    assert not any(found - {item} in having for item in found)


@given(causes, st.integers(1, 9))
def test_testing_several_at_a_time_gives_the_same_answer(several: list[Set], at_a_time: int) -> None:
    def has(tried: Set) -> bool:
        return any(cause <= tried for cause in several)

    def in_batches(candidates: Sequence[Set]) -> int | None:
        for start in range(0, len(candidates), at_a_time):
            answers = [has(one) for one in candidates[start : start + at_a_time]]
            if any(answers):
                return start + answers.index(True)
        return None

    assert ddmin(range(8), in_batches) == ddmin(range(8), first_of(has))


# Item n + 1 needs item n, as a queue that marks needs ECN, and a DCTCP receiver needs ECN's DCTCP mode.
def close(tried: Set) -> Set | None:
    kept: set[int] = set()
    for item in sorted(tried):
        if item % 4 == 0 or item - 1 in kept:
            kept.add(item)
    return frozenset(kept)


@given(st.frozensets(st.integers(0, 11), max_size=4))
def test_items_that_need_others_are_removed_with_them_and_nothing_impossible_is_tried(wanted: Set) -> None:
    # What the effect needs, and what that needs.
    cause = frozenset(need for item in wanted for need in range(item - item % 4, item + 1))
    tried: list[Set] = []
    found = frozenset(ddmin(range(12), first_of(lambda one: wanted <= one, tried), close))
    assert found == cause
    assert all(close(one) == one for one in tried)


def test_an_item_that_all_others_need_stays() -> None:
    def needs_seven(tried: Set) -> Set | None:
        return tried if 7 in tried else None

    assert ddmin(range(8), first_of(lambda tried: 3 in tried), needs_seven) == (3, 7)
    assert spared([3, 7], needs_seven) == [(3, frozenset({7})), (7, None)]


def test_an_effect_that_needs_nothing_has_no_cause() -> None:
    assert ddmin(range(5), first_of(lambda _: True)) == ()
    assert ddmin([], first_of(lambda _: True)) == ()


def test_of_two_equivalent_causes_the_later_items_are_kept() -> None:
    """Two causes that do as well: the later items stay."""
    assert ddmin("abcd", either_of("a", "d")) == ("d",)
    assert ddmin("dcba", either_of("a", "d")) == ("a",)


def either_of(*either: str) -> Callable[[Sequence[frozenset[str]]], int | None]:
    def first(candidates: Sequence[frozenset[str]]) -> int | None:
        return next((place for place, one in enumerate(candidates) if one & set(either)), None)

    return first


def test_few_of_many_items_take_few_tests() -> None:
    """Three of 64: ddmin's worst case is quadratic; this is what it is used for."""
    tried: list[Set] = []
    assert ddmin(range(64), first_of(lambda one: {5, 33, 60} <= one, tried)) == (5, 33, 60)
    assert len(tried) < 120


@given(st.integers(1, 20), st.integers(1, 20))
def test_parts_hold_all_items_in_order_and_none_is_empty(number: int, parts: int) -> None:
    made = split(range(number), min(parts, number))
    assert [item for part in made for item in part] == list(range(number))
    assert len(made) == min(parts, number)
