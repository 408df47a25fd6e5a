"""What a comparison would have found: the power of its test, and the number of pairs that decide."""

import numpy as np
import pytest

from tcpassay.compare.power import POWER, deciding, detectable, deviation, together
from tcpassay.compare.signedrank import shift


def test_fewer_pairs_than_a_significant_test_has_find_nothing_whatever_the_shift() -> None:
    # Five pairs of one sign have p = 2 / 2^5 = 0.0625.
    assert detectable(5, 0.05) is None
    assert detectable(6, 0.05) is not None
    # Corrected for seventy metrics, eleven pairs find nothing: 2 / 2^11 is above 0.05 / 70.
    assert detectable(11, 0.05 / 70) is None
    assert detectable(12, 0.05 / 70) is not None


@pytest.mark.parametrize(("pairs", "level"), [(6, 0.05), (12, 0.05), (12, 0.005), (40, 0.05), (150, 0.05)])
def test_a_detectable_shift_is_found_as_often_as_the_power_says(pairs: int, level: float) -> None:
    size = detectable(pairs, level)
    assert size is not None
    samples = np.random.default_rng(7).normal(0, 1, (400, pairs))
    found = sum(shift(one + size).p <= level for one in samples)
    assert found / 400 == pytest.approx(POWER, abs=0.06)
    assert sum(shift(one + size / 4).p <= level for one in samples) < 120


def test_with_six_pairs_the_exact_test_needs_more_than_the_normal_approximation() -> None:
    # All six differences must have one sign: 0.8 = F(d)^6, F(d) = 0.9635, d = 1.793; the approximation says 1.17.
    assert detectable(6, 0.05) == pytest.approx(1.793, abs=0.03)


def test_a_shift_that_is_small_beside_the_spread_needs_more_pairs() -> None:
    # (1.960 + 0.842)^2 * pi / 3 * 2^2 = 32.9
    assert deciding(10, 2.0, 1.0, 0.05) == 33
    # At least one more than there are, and enough for a significant test.
    assert deciding(50, 2.0, 1.0, 0.05) == 51
    assert deciding(3, 0.001, 1.0, 0.05) == 6
    assert deciding(1, None, 1.0, 0.05) == 6
    assert deciding(10, 1e6, 1.0, 0.05) is None


def test_a_few_large_differences_do_not_increase_the_pairs_that_decide() -> None:
    assert together(np.array([-3.0, 1.0, 2.0])) == pytest.approx(2 / 3)
    assert together(np.array([-1.0, 2.0, 3.0])) == 1.0
    assert together(np.array([4.0])) == 0.5
    # (1.960 + 0.842)^2 / (3 (0.9 - 0.5)^2) = 16.4, beside 3289 by the deviation
    assert deciding(5, 2.0, 0.1, 0.05, 0.9) == 17
    # All pairs of differences have one sign: a significant test needs enough of them, and no more.
    assert deciding(11, 0.25, 0.014, 0.05 / 60, 1.0) == 12


def test_the_deviation_needs_two_differences() -> None:
    assert deviation(np.array([1.0, -1.0, 1.0, -1.0])) == pytest.approx(2 / 3**0.5)
    assert deviation(np.array([1.0])) is None
