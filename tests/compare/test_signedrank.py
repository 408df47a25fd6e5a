"""The statistics: published values, exhaustive computation, and properties that hold for any data."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcpassay.compare import signedrank
from tcpassay.compare.correction import adjust
from tcpassay.compare.signedrank import shift
from tcpassay.plan.enough import fewest

SIZES = st.floats(min_value=1e-3, max_value=1e6)
DIFFERENCES = st.lists(SIZES.flatmap(lambda x: st.sampled_from([x, -x])), min_size=1, max_size=40)


def brute_force(differences: list[float]) -> float:
    """Every pattern of signs, one by one."""
    sizes = np.abs(differences)
    ranks = [sum(sizes < x) + (sum(sizes == x) + 1) / 2 for x in sizes]
    total = sum(ranks)
    observed = sum(r for r, d in zip(ranks, differences, strict=True) if d > 0)
    sums = [
        sum(r for r, up in zip(ranks, signs, strict=True) if up)
        for signs in itertools.product([0, 1], repeat=len(ranks))
    ]
    smaller = min(observed, total - observed)
    return min(1.0, 2 * sum(s <= smaller for s in sums) / len(sums))


def test_darwins_maize_data_have_the_published_p_value() -> None:
    """Fifteen pairs of plants, in eighths of an inch (Fisher 1935).

    The tables' critical sum for 15 at 5 % is 25, so the interval is from the 26th to the 95th of the 120 averages.
    """
    maize = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    found = shift(np.array(maize, float))
    assert found.p == pytest.approx(0.04125977, abs=1e-8)
    assert (found.low, found.high) == (4.0, 41.5)
    assert found.estimate == 25.0


def test_six_equal_signs_are_the_minimum_for_five_percent() -> None:
    assert fewest(0.05) == 6
    assert fewest(0.01) == 8
    assert shift(np.arange(1.0, 7.0)).p == pytest.approx(2 / 64)
    assert shift(np.arange(1.0, 6.0)).p == pytest.approx(2 / 32)


def test_the_interval_of_six_is_all_of_them_and_of_five_there_is_none() -> None:
    six = shift(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 9.0]))
    assert (six.low, six.high) == (1.0, 9.0)
    assert shift(np.array([1.0, 2.0, 3.0, 4.0, 5.0])).low is None


def test_a_single_outlier_changes_the_estimate_little() -> None:
    assert shift(np.array([1.0, 1.1, 0.9, 1.05, 0.95, 1e9])).estimate < 1.2


@given(st.lists(st.sampled_from([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0, 4.5]), min_size=1, max_size=9))
def test_p_is_the_share_of_sign_patterns_as_uneven_also_with_ties(differences: list[float]) -> None:
    assert shift(np.array(differences)).p == pytest.approx(brute_force(differences))


@given(DIFFERENCES)
def test_inverting_every_sign_inverts_the_estimate_and_keeps_p(differences: list[float]) -> None:
    there, back = shift(np.array(differences)), shift(-np.array(differences))
    assert back.estimate == -there.estimate
    assert back.p == there.p
    if there.low is None or there.high is None:
        assert back.low is None
    else:
        assert (back.low, back.high) == (-there.high, -there.low)


@given(DIFFERENCES)
def test_the_interval_holds_the_estimate_and_leaves_zero_out_when_p_is_small(
    differences: list[float],
) -> None:
    found = shift(np.array(differences))
    assert 0 < found.p <= 1
    if found.low is not None and found.high is not None:
        assert found.low <= found.estimate <= found.high
        if found.low > 0 or found.high < 0:
            assert found.p <= 0.05 + 1e-12


@given(DIFFERENCES, st.integers(min_value=1))
def test_bisection_finds_the_average_that_sorting_finds(differences: list[float], k: int) -> None:
    ordered = np.sort(differences)
    n = len(ordered)
    k = 1 + k % (n * (n + 1) // 2)
    expected = sorted((ordered[i] + ordered[j]) / 2 for i in range(n) for j in range(i, n))[k - 1]
    assert signedrank.kth_by_bisection(ordered, k) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert signedrank.kth(ordered, k) == pytest.approx(expected)


def test_many_differences_are_judged_by_the_normal_distribution_much_as_exactly() -> None:
    dice = np.random.default_rng(1)
    differences = dice.normal(0.2, 1, 100)
    exact = shift(differences)
    most, signedrank.EXACT = signedrank.EXACT, 10
    try:
        normal = shift(differences)
    finally:
        signedrank.EXACT = most
    assert normal.p == pytest.approx(exact.p, rel=0.05)
    assert normal.low == pytest.approx(exact.low, abs=0.002)
    assert normal.high == pytest.approx(exact.high, abs=0.002)


def test_ten_thousand_differences_take_little_memory_and_time() -> None:
    dice = np.random.default_rng(1)
    found = shift(dice.normal(0.1, 1, 10_000))
    assert found.estimate == pytest.approx(0.1, abs=0.03)
    assert found.p < 1e-10


def test_the_rate_of_false_positives_is_the_level() -> None:
    dice = np.random.default_rng(1)
    alarms = sum(shift(dice.normal(0, 1, 20)).p <= 0.05 for _ in range(2000))
    assert 60 <= alarms <= 135


def test_holm_multiplies_by_what_is_left_and_never_falls() -> None:
    assert adjust([0.01, 0.04, 0.03, 0.005], "holm") == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_benjamini_and_hochberg_divide_by_the_rank() -> None:
    assert adjust([0.01, 0.04, 0.03, 0.005], "bh") == pytest.approx([0.02, 0.04, 0.04, 0.02])


def test_without_correction_p_values_are_unchanged() -> None:
    assert adjust([0.2, 0.01], "none") == [0.2, 0.01]


@given(st.lists(st.floats(0, 1), max_size=30))
def test_a_correction_never_lowers_p_and_holm_is_the_stricter(p_values: list[float]) -> None:
    holm, bh = adjust(p_values, "holm"), adjust(p_values, "bh")
    assert all(p - 1e-12 <= b <= h + 1e-12 <= 1 + 1e-9 for p, b, h in zip(p_values, bh, holm, strict=True))
    assert not any(math.isnan(p) for p in holm)
