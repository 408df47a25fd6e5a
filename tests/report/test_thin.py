"""Thinning only omits points that would not be visible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcpassay.report import thin


def test_a_spike_of_one_point_among_a_million_survives() -> None:
    time, values = np.arange(1_000_000.0), np.zeros(1_000_000)
    values[456_789], values[456_790] = 9.0, -4.0
    kept = thin.extremes(time, values, 2000)
    assert len(kept) <= 2000
    assert {456_789, 456_790} <= set(kept.tolist())


def test_few_points_are_kept_as_they_are() -> None:
    assert thin.extremes(np.arange(5.0), np.array([1.0, 5, 2, 4, 3]), 5).tolist() == [0, 1, 2, 3, 4]


def test_four_points_are_both_ends_and_both_extremes() -> None:
    values = np.array([2.0, 3, 9, 3, -1, 2, 2.5])
    assert thin.extremes(np.arange(7.0), values, 4).tolist() == [0, 2, 4, 6]


def test_fewer_than_four_points_are_refused() -> None:
    with pytest.raises(ValueError, match="3 points are too few"):
        thin.extremes(np.arange(9.0), np.arange(9.0), 3)


numbers = st.lists(st.tuples(st.integers(0, 10**9), st.integers(-1000, 1000)), min_size=1, max_size=400)


@given(numbers, st.integers(4, 100))
def test_ends_and_extremes_always_survive_in_order(points: list[tuple[int, int]], most: int) -> None:
    time = np.sort(np.array([t for t, _ in points], dtype=float))
    values = np.array([v for _, v in points], dtype=float)
    kept = thin.extremes(time, values, most)
    assert len(kept) <= most or len(points) <= most
    assert (np.diff(kept) > 0).all()
    assert kept[0] == 0
    assert kept[-1] == len(values) - 1
    assert values[kept].min() == values.min()
    assert values[kept].max() == values.max()


def test_bars_of_one_bin_become_one_that_spans_them() -> None:
    time = np.array([0.0, 1, 2, 3, 10])
    low, high = np.array([0.0, 10, 20, 30, 100]), np.array([10.0, 20, 30, 40, 110])
    at, bottom, top = thin.spans(time, low, high, 2)
    assert (at.tolist(), bottom.tolist(), top.tolist()) == ([0, 10], [0, 100], [40, 110])


def test_counts_are_summed_and_none_is_lost() -> None:
    at, sums = thin.sums(np.array([1.0, 2, 11, 35]), np.array([1.0, 2, 4, 8]), 10)
    assert (at.tolist(), sums.tolist()) == ([0, 10, 30], [3, 4, 8])


def test_a_distribution_keeps_both_ends_and_the_tail() -> None:
    values = np.arange(1.0, 1_000_001)
    kept, share = thin.quantiles(values, np.ones(1_000_000))
    assert len(kept) < 400
    assert (kept[0], kept[-1], share[-1]) == (1, 1_000_000, 1)
    assert 999_990 in kept
    assert share.tolist() == pytest.approx((kept / 1e6).tolist())


def test_a_distribution_of_few_values_is_all_of_them() -> None:
    kept, share = thin.quantiles(np.array([2.0, 3, 9]), np.array([2.0, 1, 1]))
    assert (kept.tolist(), share.tolist()) == ([2, 3, 9], [0.5, 0.75, 1])


def test_the_points_inside_windows_are_selected_up_to_a_maximum_number() -> None:
    time = np.array([0.0, 1, 2, 3, 4, 5])
    assert thin.within(time, [(1, 2), (4, 4)], 3).tolist() == [False, True, True, False, True, False]
    assert not thin.within(time, [(1, 2), (4, 4)], 2).any()


def test_all_at_one_instant_is_one_bin() -> None:
    kept = thin.extremes(np.zeros(9), np.array([0.0, 1, 7, 3, 2, -5, 1, 1, 4]), 4)
    assert kept.tolist() == [0, 2, 5, 8]
