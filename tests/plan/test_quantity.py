"""The meaning of values in comparisons."""

from fractions import Fraction

import pytest

from tcpassay.errors import UserError
from tcpassay.plan.quantity import Quantity, quantity


@pytest.mark.parametrize(
    ("value", "kind", "amount"),
    [
        (5, "a number", 5),
        (0.1, "a number", Fraction(1, 10)),
        ("5", "a number", 5),
        ("-1.5", "a number", Fraction(-3, 2)),
        ("0.1%", "a number", Fraction(1, 1000)),
        ("1.5ms", "a length of time", 1_500_000),
        ("1500us", "a length of time", 1_500_000),
        ("2min", "a length of time", 120_000_000_000),
        ("64KiB", "a number of bytes", 65_536),
        ("30KB", "a number of bytes", 30_000),
        ("1Gbit", "a rate", 1_000_000_000),
        ("100p", "a number of packets", 100),
    ],
)
def test_a_number_with_a_suffix_counts_in_the_smallest_unit(
    value: float | str, kind: str, amount: Fraction
) -> None:
    assert quantity(value) == Quantity(kind, Fraction(amount))


@pytest.mark.parametrize(
    "text", ["dctcp", "linux-4.6", "1Mbps", "10 ms", "1e3", "", "ms", "1GBIT", "9" * 5000]
)
def test_anything_else_is_a_text(text: str) -> None:
    assert quantity(text) == Quantity("a text", text)


def test_a_switch_is_on_or_off_however_it_is_written_and_has_no_order() -> None:
    assert quantity(True) == quantity("true") == quantity("on")  # noqa: FBT003
    assert quantity(False) == quantity("false") == quantity("off")  # noqa: FBT003
    assert quantity(True) != quantity(1)  # noqa: FBT003
    assert not quantity(False).less(quantity(True))  # noqa: FBT003


def test_only_quantities_of_a_kind_have_an_order() -> None:
    assert quantity("1ms").less(quantity("1s"))
    assert not quantity("1s").less(quantity("1ms"))
    assert not quantity("1ms").less(quantity("1MB"))
    assert not quantity("a").less(quantity("b"))


def test_a_number_that_is_not_finite_is_refused() -> None:
    with pytest.raises(UserError, match="`nan` is not a number"):
        quantity(float("nan"))
