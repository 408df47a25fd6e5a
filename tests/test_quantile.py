"""Quantiles are nearest ranks; the report's scripts are tested with the same numbers in Chromium (tests/report)."""

import numpy as np
import pytest

from tcpassay.quantile import median, quantile


@pytest.mark.parametrize(
    ("share", "value"), [(0, 1), (0.5, 50), (0.501, 51), (0.99, 99), (0.999, 100), (1, 100), (0.07, 7)]
)
def test_a_quantile_is_the_smallest_value_that_at_least_the_share_does_not_exceed(
    share: float, value: float
) -> None:
    assert quantile(range(1, 101), share) == value


def test_the_numbers_are_those_of_the_test_of_metrics() -> None:
    expected = ((0.0, 1), (0.1, 1), (0.11, 2), (0.5, 5), (0.9, 9), (0.99, 10), (1.0, 10))
    assert [quantile(range(1, 11), share) for share, _ in expected] == [value for _, value in expected]


def test_a_quantile_of_few_values_is_one_of_them() -> None:
    assert [quantile([1, 2, 4, 8], share) for share in (0, 0.25, 0.26, 0.5, 0.75, 1)] == [1, 1, 2, 2, 4, 8]
    assert quantile([7.5], 0.99) == 7.5
    assert median([90, 60, 80, 70]) == 70


def test_figures_use_the_same_definition_from_numpy() -> None:
    values = np.array([1.0, 2.0, 4.0, 8.0, 9.0])
    for share in (0.01, 0.2, 0.21, 0.5, 0.6, 0.99):
        assert np.quantile(values, share, method="inverted_cdf") == quantile(values.tolist(), share)
