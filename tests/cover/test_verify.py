"""The verifier, compared with exhaustive enumeration, on arrays with known coverage, and with planted faults."""

from itertools import product

import numpy as np
import pytest
from bruteforce import allowed_rows, spaces, tuples
from hypothesis import assume, given
from hypothesis import strategies as st

from tcpassay.cover.generate import Family, TWay
from tcpassay.cover.space import Parameter, Space
from tcpassay.cover.verify import Line, verify, verify_rows
from tcpassay.errors import UserError
from tcpassay.plan.constraint_parser import parse
from tcpassay.plan.quantity import Value

# Taguchi's L9: nine cases that cover every pair of four parameters with three levels exactly once.
L9 = ["0000", "0111", "0222", "1012", "1120", "1201", "2021", "2102", "2210"]
# What allpairspy 2.5.1 gives when asked for all triples of five parameters with two levels.
ASKED_FOR_TRIPLES = ["00000", "11110", "11001", "00111", "00101", "00011", "00010"]


def plain(*sizes: int) -> Space:
    return Space(tuple(Parameter(f"p{n}", tuple(range(size))) for n, size in enumerate(sizes)))


def cases(rows: list[str]) -> list[dict[str, Value]]:
    return [{f"p{n}": int(level) for n, level in enumerate(row)} for row in rows]


def test_an_orthogonal_array_is_complete_at_its_strength_and_a_third_above_it() -> None:
    report = verify(plain(3, 3, 3, 3), cases(L9), TWay(3))
    assert [(line.strength, line.total, line.covered) for line in report.lines] == [(2, 54, 54), (3, 108, 36)]
    assert not report.complete
    assert report.lines[0].complete
    assert len(report.lines[1].examples) == 10


def test_without_one_case_exactly_its_pairs_are_missing() -> None:
    report = verify(plain(3, 3, 3, 3), cases(L9[:5] + L9[6:]), TWay(2), examples=None)
    assert report.lines == (
        Line(
            name="all parameters",
            strength=2,
            parameters=4,
            total=54,
            covered=48,
            excluded=0,
            examples=(
                {"p0": 1, "p1": 2},
                {"p0": 1, "p2": 0},
                {"p0": 1, "p3": 1},
                {"p1": 2, "p2": 0},
                {"p1": 2, "p3": 1},
                {"p2": 0, "p3": 1},
            ),
        ),
    )


def test_a_full_product_without_one_case_misses_exactly_that_triple() -> None:
    rows = ["".join(map(str, row)) for row in product(range(2), repeat=3) if row != (1, 0, 1)]
    report = verify(plain(2, 2, 2), cases(rows), TWay(3))
    assert [(line.strength, line.missing) for line in report.lines] == [(2, 0), (3, 1)]
    assert report.lines[1].examples == ({"p0": 1, "p1": 0, "p2": 1},)


def test_an_array_with_two_thirds_of_its_triples_is_reported_as_incomplete() -> None:
    report = verify(plain(2, 2, 2, 2, 2), cases(ASKED_FOR_TRIPLES), TWay(3))
    assert [(line.strength, line.total, line.missing) for line in report.lines] == [(2, 40, 2), (3, 80, 27)]
    assert report.lines[1].examples[0] == {"p0": 0, "p1": 1, "p2": 0}


def test_a_tuple_that_no_complete_case_can_have_is_excluded_not_missing() -> None:
    # a = 1 forces b = 1, which forces c = 1: a = 1 with c = 0 is against no constraint, yet impossible.
    space = Space(
        tuple(Parameter(name, (0, 1)) for name in "abc"),
        (parse("IF [a] = 1 THEN [b] = 1"), parse("IF [b] = 1 THEN [c] = 1")),
    )
    good: list[dict[str, Value]] = [
        {"a": a, "b": b, "c": c} for a, b, c in [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)]
    ]
    report = verify(space, good, TWay(2))
    assert report.lines[0] == Line("all parameters", 2, 3, total=9, covered=9, excluded=3, examples=())


def test_a_triple_whose_pairs_are_all_possible_may_be_excluded() -> None:
    space = Space(
        tuple(Parameter(name, (0, 1)) for name in "abc"), (parse("NOT ([a] = 1 AND [b] = 1 AND [c] = 1)"),)
    )
    two, three = verify(space, [], TWay(3)).lines
    assert (two.total, two.excluded) == (12, 0)
    assert (three.total, three.excluded) == (7, 1)


def test_an_invalid_level_is_counted_with_every_level_of_the_others_whatever_the_strength() -> None:
    parameters = (Parameter("a", (0, 1), invalid=(9,)), *(Parameter(name, (0, 1)) for name in "bcd"))
    strategy = TWay(3, (Family("close", ("a", "b", "c", "d"), 4),))
    met: list[dict[str, Value]] = [{"a": 9, "b": n, "c": n, "d": 0} for n in (0, 1)]
    line = verify(Space(parameters), met, strategy, examples=None).lines[-1]
    assert (line.name, line.strength, line.total, line.covered) == ("invalid values", 2, 6, 5)
    assert line.examples == ({"a": 9, "d": 1},)


def test_a_case_against_a_constraint_is_named_and_covers_nothing() -> None:
    space = Space((Parameter("a", (0, 1)), Parameter("b", (0, 1))), (parse("[a] <= [b]"),))
    report = verify(space, [{"a": 0, "b": 0}, {"a": 1, "b": 0}, {"a": 1, "b": 1}], TWay(2))
    assert [(f.case, f.reason) for f in report.forbidden] == [(1, "violates the constraint [a] <= [b]")]
    assert (report.cases, report.lines[0].total, report.lines[0].covered) == (3, 3, 2)
    assert report.lines[0].examples == ({"a": 0, "b": 1},)


def test_each_invalid_level_is_counted_with_every_other_level() -> None:
    space = Space(
        (Parameter("a", (0, 1), invalid=(9,)), Parameter("b", (0, 1), invalid=(8,)), Parameter("c", (0, 1)))
    )
    met: list[dict[str, Value]] = [
        {"a": 9, "b": 0, "c": 0},
        {"a": 9, "b": 1, "c": 0},
        {"a": 0, "b": 8, "c": 1},
        {"a": 9, "b": 8, "c": 1},
    ]
    report = verify(space, met, TWay(2), examples=None)
    line = report.lines[-1]
    assert (line.name, line.total, line.covered) == ("invalid values", 8, 5)
    assert line.examples == ({"a": 9, "c": 1}, {"b": 8, "a": 1}, {"b": 8, "c": 0})
    assert [(f.case, f.reason) for f in report.forbidden] == [(3, "more than one invalid value")]


def test_families_have_lines_of_their_own() -> None:
    strategy = TWay(2, (Family("ecn", ("p0", "p1", "p3"), 3), Family("small", ("p2", "p3"), 4)))
    report = verify(plain(3, 3, 3, 3), cases(L9), strategy)
    assert [(line.name, line.strength, line.total, line.covered) for line in report.lines] == [
        ("all parameters", 2, 54, 54),
        ("ecn", 3, 27, 9),
        ("small", 2, 9, 9),
    ]


def test_a_family_that_names_no_parameter_and_a_strength_out_of_range_are_refused() -> None:
    with pytest.raises(
        UserError, match="the family `ecn` mentions `p9`, which is not a parameter of the plan"
    ):
        verify(plain(2, 2), [], TWay(2, (Family("ecn", ("p0", "p9"), 3),)))
    with pytest.raises(UserError, match="the plan has the interaction strength 7; allowed are 2 to 6"):
        verify(plain(2, 2), [], TWay(7))


def test_parameters_with_one_level_are_not_counted() -> None:
    report = verify(plain(1, 2, 2, 1), cases(["0000", "0110"]), TWay(3))
    assert [(line.strength, line.parameters, line.total, line.covered) for line in report.lines] == [
        (2, 2, 4, 2)
    ]


def test_nothing_that_varies_is_complete_with_one_case_and_lacks_one_without() -> None:
    assert verify(plain(1, 1), cases(["00"]), TWay(2)).complete
    assert not verify(plain(1, 1), [], TWay(2)).complete


@given(spaces(), st.data())
def test_counts_agree_with_trying_everything(space: Space, data: st.DataObject) -> None:
    allowed = allowed_rows(space)
    assume(allowed)
    strength = data.draw(st.integers(2, 4))
    everything = st.tuples(*(st.integers(0, size - 1) for size in space.sizes))
    rows = data.draw(st.lists(st.sampled_from(allowed) | everything, max_size=12))
    report = verify_rows(
        space, np.array(rows, dtype=np.int32).reshape(len(rows), len(space.sizes)), TWay(strength), None
    )
    assert [f.case for f in report.forbidden] == [n for n, row in enumerate(rows) if row not in set(allowed)]
    for line in report.lines:
        valid = tuples(allowed, space.free, line.strength)
        covered = tuples([row for row in rows if row in set(allowed)], space.free, line.strength)
        assert (line.total, line.covered) == (len(valid), len(covered))
        names = {tuple((space.parameters[v].name, level) for v, level in t) for t in valid - covered}
        assert {tuple(example.items()) for example in line.examples} == names
