"""The solver, compared with exhaustive enumeration."""

import random

import numpy as np
import pytest
from bruteforce import allowed_rows, spaces
from hypothesis import assume, given
from hypothesis import strategies as st

from tcpassay.cover.network import Network
from tcpassay.cover.space import Parameter, Space
from tcpassay.errors import UserError
from tcpassay.plan.constraint_parser import parse


def network(space: Space) -> Network:
    return Network(space.sizes, space.tables)


@given(spaces())
def test_all_count_and_satisfiable_agree_with_trying_everything(space: Space) -> None:
    rows = allowed_rows(space)
    assert [tuple(row) for row in network(space).all()] == rows
    assert network(space).count() == len(rows)
    assert network(space).satisfiable() is bool(rows)


@given(spaces(), st.data())
def test_a_projection_holds_what_some_allowed_row_has(space: Space, data: st.DataObject) -> None:
    scope = tuple(sorted(data.draw(st.sets(st.integers(0, len(space.sizes) - 1), max_size=3))))
    expected = {tuple(row[v] for v in scope) for row in allowed_rows(space)}
    found = {tuple(int(n) for n in index) for index in np.argwhere(network(space).project(scope))}
    assert found == expected


@given(spaces(), st.data())
def test_the_nearest_row_departs_in_as_few_parameters_as_possible(space: Space, data: st.DataObject) -> None:
    wanted = [parameter.default for parameter in space.parameters]
    v = data.draw(st.integers(0, len(space.sizes) - 1))
    level = data.draw(st.integers(0, space.sizes[v] - 1))
    candidates = [row for row in allowed_rows(space) if row[v] == level]
    found = network(space).nearest(wanted, {v: level})
    if not candidates:
        assert found is None
        return
    assert found is not None
    assert tuple(found) in candidates
    departures = [sum(a != b for a, b in zip(row, wanted, strict=True)) for row in (found, *candidates)]
    assert departures[0] == min(departures[1:])


@given(spaces())
def test_samples_are_allowed(space: Space) -> None:
    assume(network(space).satisfiable())
    draw, rng = network(space).sampler(), random.Random(1)  # noqa: S311
    allowed = set(allowed_rows(space))
    assert all(tuple(draw(rng)) in allowed for _ in range(5))


def test_every_allowed_row_is_drawn_equally_often() -> None:
    # Two of the three rows have a = 1: a fair choice of `a` first would draw a = 0 half of the time.
    space = Space((Parameter("a", (0, 1)), Parameter("b", (0, 1))), (parse("IF [a] = 0 THEN [b] = 0"),))
    draw, rng = network(space).sampler(), random.Random(1)  # noqa: S311
    drawn = [tuple(draw(rng)) for _ in range(3000)]
    assert {row: round(drawn.count(row), -2) for row in set(drawn)} == {
        (0, 0): 1000,
        (1, 0): 1000,
        (1, 1): 1000,
    }


def test_a_count_is_exact_beyond_what_a_machine_word_holds() -> None:
    parameters = tuple(Parameter(f"p{n}", tuple(range(10))) for n in range(40))
    space = Space(parameters, (parse("[p0] <> [p1]"),))
    assert network(space).count() == 9 * 10**39


def test_a_chain_of_a_hundred_parameters_is_solved() -> None:
    parameters = tuple(Parameter(f"p{n}", tuple(range(5))) for n in range(100))
    space = Space(parameters, tuple(parse(f"[p{n}] <= [p{n + 1}]") for n in range(99)))
    # Non-decreasing sequences of 100 levels out of 5: 104 choose 4.
    assert network(space).count() == 4_598_126
    assert network(space).project((0, 99)).tolist() == [[b >= a for b in range(5)] for a in range(5)]


def test_constraints_that_tie_everything_together_are_refused_with_a_message() -> None:
    parameters = tuple(Parameter(f"p{n}", tuple(range(20))) for n in range(14))
    pairs = [(a, b) for a in range(14) for b in range(a)]
    space = Space(parameters, tuple(parse(f"[p{a}] <> [p{b}]") for a, b in pairs))
    with pytest.raises(UserError, match=r"the constraints connect .* parameters so that a table"):
        network(space).count()
