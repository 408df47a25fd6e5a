"""Axes that are not lists: ranges and distributions, and their values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tcpassay.plan import axis, fields, model
from tcpassay.plan.quantity import quantity

AXIS: TypeAdapter[Any] = TypeAdapter(model.Axis)


def values(path: str, **said: Any) -> list[fields.Scalar]:
    return axis.values(path, AXIS.validate_python({key.rstrip("_"): value for key, value in said.items()}))


def test_a_linear_range_has_equal_steps_and_its_ends_as_written() -> None:
    assert values("link.delay", from_="0s", to="0.1s", steps=5) == ["0s", "25ms", "50ms", "75ms", "0.1s"]
    assert values("link.loss", from_=0, to=0.1, steps=3) == [0, 0.05, 0.1]


def test_a_logarithmic_range_has_equal_ratios_rounded_to_four_digits() -> None:
    wanted = ["1ms", "3.162ms", "10ms", "31.62ms", "100ms"]
    assert values("link.delay", from_="1ms", to="100ms", steps=5, scale="log") == wanted
    rates = values("link.rate", from_="10Mbit", to="10Gbit", steps=4, scale="log")
    assert rates == ["10Mbit", "100Mbit", "1Gbit", "10Gbit"]


def test_a_parameter_of_whole_numbers_gets_whole_numbers_and_percentages_stay_percentages() -> None:
    assert values("app.flows", from_=1, to=10, steps=4) == [1, 4, 7, 10]
    assert values("sender/app.flows", from_=1, to=10, steps=5) == [1, 3, 6, 8, 10]
    assert values("link.loss", from_="0.1%", to="10%", steps=3, scale="log") == ["0.1%", "1%", "10%"]
    assert values("queue.limit", from_="10p", to="20p", steps=3) == ["10p", "15p", "20p"]


def test_a_drawn_axis_is_the_same_every_time_and_a_longer_one_begins_with_it() -> None:
    said: dict[str, Any] = {"distribution": "loguniform", "from_": "100us", "to": "100ms"}
    eight = values("link.delay", **said, count=8)
    assert eight == values("link.delay", **said, count=8)
    assert values("link.delay", **said, count=12)[:8] == eight
    assert eight[:3] == ["305.2us", "8.418ms", "2.623ms"]


def test_another_seed_or_another_parameter_draws_other_values() -> None:
    said: dict[str, Any] = {"distribution": "uniform", "from_": "1ms", "to": "9ms", "count": 4}
    assert values("link.delay", **said) != values("link.delay", **said, seed=2)
    assert values("link.delay", **said) != values("link.jitter", **said)


def test_a_normal_distribution_keeps_to_its_ends_and_above_zero() -> None:
    drawn = values("link.delay", distribution="normal", mean="10ms", deviation="20ms", count=50)
    assert all(quantity(value).amount >= 0 for value in drawn)  # type: ignore[operator]
    narrow = values(
        "link.delay", distribution="normal", mean="10ms", deviation="9ms", from_="9ms", to="11ms", count=50
    )
    assert all(9_000_000 <= quantity(value).amount <= 11_000_000 for value in narrow)  # type: ignore[operator]
    middle = sorted(quantity(value).amount for value in narrow)[25]  # type: ignore[type-var]
    assert 9_500_000 < middle < 10_500_000  # type: ignore[operator]


def test_a_choice_draws_each_value_at_most_once_the_likely_ones_first() -> None:
    said: dict[str, Any] = {"distribution": "choice", "values": ["reno", "cubic", "vegas"]}
    assert sorted(values("stack.cc", **said, count=3)) == ["cubic", "reno", "vegas"]  # type: ignore[type-var]
    first = [values("stack.cc", **said, weights=[1, 1, 98], count=1, seed=n)[0] for n in range(100)]
    assert first.count("vegas") > 90


@pytest.mark.parametrize(
    ("path", "said", "key", "message"),
    [
        ("link.delay", {"from_": "1ms", "to": "1KB", "steps": 3}, "to", "`1KB` is a number of bytes"),
        (
            "link.delay",
            {"from_": "9ms", "to": "1ms", "steps": 3},
            "to",
            "`1ms` is not more than `from` = `9ms`",
        ),
        ("link.delay", {"from_": "0s", "to": "1s", "steps": 3, "scale": "log"}, "from", "begin above 0"),
        ("stack.cc", {"from_": "reno", "to": "vegas", "steps": 3}, "from", "a number is needed"),
        ("app.flows", {"from_": 1, "to": 3, "steps": 9}, "steps", "only 3 different values"),
        (
            "app.flows",
            {"distribution": "uniform", "from_": 1, "to": 3, "count": 9},
            "count",
            "`9`: the distribution gives only 3 different values",
        ),
        ("stack.cc", {"distribution": "choice", "values": ["reno"], "count": 2}, "count", "only 1 values"),
        (
            "stack.cc",
            {"distribution": "choice", "values": ["reno", "cubic"], "weights": [1], "count": 2},
            "weights",
            "1 weights for 2 values",
        ),
        (
            "link.delay",
            {"distribution": "normal", "mean": "1ms", "deviation": "1KB", "count": 2},
            "deviation",
            "`1KB` is a number of bytes, and `mean` is a length of time",
        ),
        (
            "link.delay",
            {"distribution": "normal", "mean": "1ms", "deviation": "0s", "count": 2},
            "deviation",
            "`0s` is not above 0",
        ),
    ],
)
def test_an_error_in_an_axis_without_values_names_the_key(
    path: str, said: dict[str, Any], key: str, message: str
) -> None:
    with pytest.raises(axis.AxisError) as caught:
        values(path, **said)
    assert caught.value.key == key
    assert message in caught.value.message


AMOUNTS = st.integers(0, 10**6) | st.floats(0, 1, allow_nan=False)
ENDS = st.tuples(AMOUNTS, st.sampled_from(["", "ms", "s", "KB", "B", "Mbit", "%", "p"])).map(
    lambda pair: f"{pair[0]:.6f}{pair[1]}" if pair[1] else pair[0]
)


def test_a_range_of_values_with_too_many_decimals_is_refused() -> None:
    with pytest.raises(axis.AxisError, match="`3`: values between these ends have more than 30 decimals"):
        values("link.loss", from_="0%", to=3e-188, steps=3)


@given(ENDS, ENDS, st.integers(2, 20), st.sampled_from(["linear", "log"]))
def test_a_range_with_any_ends_is_refused_or_rises_from_one_to_the_other(
    start: Any, end: Any, steps: int, scale: str
) -> None:
    try:
        made = values("link.delay", from_=start, to=end, steps=steps, scale=scale)
    except axis.AxisError:
        return
    amounts = [quantity(value).amount for value in made]
    assert len(made) == steps
    assert (made[0], made[-1]) == (start, end)
    assert amounts == sorted(set(amounts))  # type: ignore[type-var]
