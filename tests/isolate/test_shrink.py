"""Reduction of runs and round values, on artificial effects."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcpassay.isolate.shrink import ladder, least, shorter, simpler_values, written
from tcpassay.isolate.triples import Triples, mapping_of, triples_of
from tcpassay.plan.quantity import quantity


def amount(triples: Triples, path: str) -> float | None:
    value = mapping_of(triples).get(path)
    said = None if value is None else quantity(value).amount
    return float(said) if isinstance(said, Fraction) else None


def test_a_ladder_has_the_round_numbers_between_two_ends() -> None:
    assert [int(one) for one in ladder(Fraction(3), Fraction(500))] == [5, 10, 20, 50, 100, 200]
    assert [int(one) for one in ladder(Fraction(0), Fraction(50_000))] == [
        100, 200, 500, 1000, 2000, 5000, 10000, 20000,
    ]  # fmt: skip
    assert ladder(Fraction(5), Fraction(5)) == []


@pytest.mark.parametrize(
    ("value", "kind", "like", "text"),
    [
        (50_000, "a length of time", "", "50us"),
        (1_500_000, "a length of time", "", "1500us"),
        (2 * 10**9, "a rate", "", "2Gbit"),
        (5000, "a number of bytes", "", "5KB"),
        (20, "a number of packets", "", "20p"),
        (Fraction(1, 1000), "a number", "1%", "0.1%"),
        (4, "a number", 8, 4),
    ],
)
def test_amounts_are_written_as_a_plan_has_them(value: int, kind: str, like: str, text: str) -> None:
    assert written(Fraction(value), kind, like) == text
    assert quantity(written(Fraction(value), kind, like)).amount == value


@given(st.integers(0, 20))
def test_the_least_of_rising_steps_is_found_by_halving(first: int) -> None:
    steps = [triples_of({"app.flows": n}) for n in range(20)]
    tried = []

    def shows(step: Triples) -> bool:
        tried.append(step)
        return steps.index(step) >= first

    assert least(steps, shows) == (steps[first] if first < 20 else None)
    assert len(tried) <= 5


def test_values_go_towards_the_default_as_far_as_the_effect_stays() -> None:
    cause = triples_of({"app.flows": 8, "link.loss": "2%", "link.delay": "20ms", "stack.cc": "cubic"})

    def shows(one: Triples) -> bool:
        flows, loss, delay = (amount(one, path) for path in ("app.flows", "link.loss", "link.delay"))
        return (flows or 0) >= 3 and (loss or 0) >= 0.004 and (delay or 0) >= 1e6

    assert mapping_of(simpler_values(cause, shows)) == {
        "app.flows": 3,
        "link.loss": "0.5%",
        "link.delay": "1ms",
        "stack.cc": "cubic",
    }


def test_a_value_below_the_default_rises_towards_it() -> None:
    slow = triples_of({"link.rate": "10Mbit"})
    assert mapping_of(simpler_values(slow, lambda one: (amount(one, "link.rate") or 0) <= 200e6)) == {
        "link.rate": "200Mbit"
    }


def test_a_run_becomes_short_and_slow_and_sends_little() -> None:
    run = triples_of({"app.duration": "10s"})

    def shows(one: Triples) -> bool:
        seconds = (amount(one, "app.duration") or 0) / 1e9
        rate = amount(one, "link.rate") or 1e9
        size = amount(one, "app.flow_size")
        return seconds >= 0.03 and rate >= 8e6 and (size is None or size >= 3000)

    assert mapping_of(shorter(triples_of({"stack.cc": "cubic"}), run, shows)) == {
        "app.duration": "50ms",
        "link.rate": "10Mbit",
        "app.flow_size": "5KB",
    }


def test_what_the_cause_names_keeps_its_value() -> None:
    run = shorter(triples_of({"link.rate": "10Gbit"}), triples_of({"app.duration": "1s"}), lambda _: True)
    assert "link.rate" not in mapping_of(run)
