"""The features of runs, which a search for findings prefers when they are rare."""

from tcpassay.search.feedback import Rarity, bucket


def test_a_behaviour_that_fewer_cases_reached_has_a_larger_weight() -> None:
    rarity = Rarity()
    rarity.add(frozenset({"a", "b"}))
    rarity.add(frozenset({"a", "c"}))
    assert rarity.of(frozenset({"a", "b"})) == 1.5
    assert rarity.of(frozenset({"a"})) == 0.5


def test_counts_are_told_apart_by_their_order() -> None:
    assert [bucket(count) for count in (1, 2, 3, 4, 7, 8, 31, 32, 1000)] == [1, 2, 3, 4, 4, 8, 16, 32, 128]
