"""What a comparison would have found: the power of its test."""

import math

import numpy as np
import pytest

from tcpassay.compare.power import POWER, detectable, standard_error
from tcpassay.compare.signedrank import shift


def test_the_standard_error_falls_with_the_root_of_the_number_of_differences() -> None:
    four = standard_error(np.array([1.0, -1.0, 1.0, -1.0]))
    # A standard deviation of 2 / sqrt(3), and pi / 3 times as many differences as a test of means.
    assert four == pytest.approx(2 / math.sqrt(3) * math.sqrt(math.pi / 3) / 2)
    sixteen = standard_error(np.tile([1.0, -1.0], 8))
    assert sixteen == pytest.approx(math.sqrt(16 / 15) * math.sqrt(math.pi / 3) / 4)
    assert standard_error(np.array([1.0])) is None


def test_a_shift_of_two_point_eight_standard_errors_is_found_at_five_percent() -> None:
    # The quantiles 1.9600 and 0.8416 of the normal distribution.
    assert detectable(1.0, 0.05) == pytest.approx(2.8016, abs=1e-4)
    assert detectable(2.0, 0.05) == pytest.approx(5.6032, abs=1e-4)
    assert detectable(1.0, 0.005) > 3.6


def test_a_detectable_shift_is_found_as_often_as_the_power_says() -> None:
    draw = np.random.default_rng(1)
    samples = draw.normal(0, 0.1, (300, 40))
    size = detectable(0.1 * math.sqrt(math.pi / 3 / 40), 0.05)
    found = sum(shift(one + size).p <= 0.05 for one in samples)
    assert found / 300 == pytest.approx(POWER, abs=0.07)
    assert sum(shift(one + size / 4).p <= 0.05 for one in samples) < 60
