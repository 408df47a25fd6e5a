"""Strategies: their cases, reproducibility, and that an extension keeps existing cases."""

import pytest
from bruteforce import allowed_rows, spaces
from hypothesis import assume, given
from hypothesis import strategies as st

from tcpassay.cover.contradiction import ContradictionError
from tcpassay.cover.generate import (
    Boundary,
    Family,
    Full,
    OneAtATime,
    Random,
    Strategy,
    TWay,
    count,
    generate,
)
from tcpassay.cover.space import Derived, Parameter, Space
from tcpassay.cover.verify import verify_rows
from tcpassay.errors import UserError
from tcpassay.plan.constraint_parser import parse

SMALL = Space(
    (Parameter("a", (0, 1, 2), default=1), Parameter("b", (0, 1)), Parameter("c", ("x",))),
    (parse("IF [a] = 2 THEN [b] = 1"),),
)

# The shape of a real plan: 22 parameters of two to five levels, with constraints and invalid values.
SIZES = [5, 5, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
PLAN = Space(
    tuple(Parameter(f"p{n}", tuple(range(size)), (99,) if n == 0 else ()) for n, size in enumerate(SIZES)),
    (
        parse("IF [p0] = 1 THEN [p1] IN {1, 2}"),
        parse("IF [p2] = 3 THEN [p12] = 1"),
        parse("IF [p6] = 2 AND [p7] = 1 THEN [p8] = 0"),
        parse("IF NOT [p15] = 1 THEN [p16] = 0"),
        parse("[p3] <= [p4]"),
    ),
)


def test_full_is_every_allowed_combination_in_lexical_order() -> None:
    suite = generate(SMALL, Full())
    assert [tuple(case.values()) for case in suite.cases()] == [
        (0, 0, "x"),
        (0, 1, "x"),
        (1, 0, "x"),
        (1, 1, "x"),
        (2, 1, "x"),
    ]


def test_a_full_product_above_the_limit_is_refused_with_its_number_before_it_is_made() -> None:
    with pytest.raises(UserError, match="the full product has 4204265472 cases, more than the limit of 1000"):
        generate(Space(PLAN.parameters, PLAN.constraints[:1]), Full(limit=1000))


def test_the_number_of_allowed_combinations_is_known_without_making_them() -> None:
    assert count(SMALL) == 5
    assert count(Space(tuple(Parameter(f"p{n}", tuple(range(10))) for n in range(30)))) == 10**30


def test_one_at_a_time_changes_one_parameter_and_repairs_what_that_breaks() -> None:
    suite = generate(SMALL, OneAtATime())
    assert suite.rows == [[1, 0, 0], [0, 0, 0], [2, 1, 0], [1, 1, 0]]


def test_one_at_a_time_says_which_level_no_case_can_have() -> None:
    space = Space(SMALL.parameters, (*SMALL.constraints, parse("[b] = 0")))
    suite = generate(space, OneAtATime())
    assert suite.rows == [[1, 0, 0], [0, 0, 0]]
    assert suite.notes == (
        "no case has `a` = `2`: the constraints exclude it",
        "no case has `b` = `1`: the constraints exclude it",
    )


def test_boundary_goes_to_the_lowest_and_highest_amount_not_the_first_and_last_level() -> None:
    space = Space(
        (
            Parameter("delay", ("10ms", "1ms", "1s", "100us"), default=0),
            Parameter("cc", ("reno", "cubic", "dctcp")),
            Parameter("buffer", ("auto", "1MB", "64KB")),
        )
    )
    assert [tuple(case.values()) for case in generate(space, Boundary()).cases()] == [
        ("10ms", "reno", "auto"),
        ("100us", "reno", "auto"),
        ("1s", "reno", "auto"),
        ("10ms", "reno", "64KB"),
        ("10ms", "reno", "1MB"),
        ("100us", "reno", "64KB"),
        ("1s", "reno", "1MB"),
    ]


def test_random_cases_are_different_allowed_and_a_prefix_of_more_of_them() -> None:
    suite = generate(PLAN, Random(50), seed=7)
    assert len({tuple(row) for row in suite.rows[:50]}) == 50
    assert verify_rows(PLAN, suite.rows, TWay(2)).forbidden == ()
    assert generate(PLAN, Random(80), seed=7).rows[:50] == suite.rows[:50]
    assert generate(PLAN, Random(50), seed=8).rows != suite.rows


def test_random_gives_all_there_are_when_more_are_asked_for() -> None:
    assert sorted(generate(SMALL, Random(1000)).rows) == generate(SMALL, Full()).rows


def test_random_cases_of_a_seed_stay_the_same() -> None:
    assert generate(SMALL, Random(3), seed=1).rows == [[0, 0, 0], [1, 0, 0], [2, 1, 0]]


def test_small_arrays_are_near_the_smallest_possible() -> None:
    # Four cases are the fewest for three binary parameters; nine for four of three levels.
    space = Space(tuple(Parameter(name, (0, 1)) for name in "abc"))
    rows = generate(space, TWay(2)).rows
    assert 4 <= len(rows) <= 5
    ternary = Space(tuple(Parameter(name, (0, 1, 2)) for name in "abcd"))
    assert 9 <= len(generate(ternary, TWay(2))) <= 12
    assert verify_rows(space, rows, TWay(2)).complete


def test_a_covering_array_of_22_parameters_is_complete_at_3_way_by_the_verifier() -> None:
    suite = generate(PLAN, TWay(3))
    report = verify_rows(PLAN, suite.rows, TWay(3))
    assert report.complete
    assert report.forbidden == ()
    assert [(line.name, line.strength, line.total) for line in report.lines] == [
        ("all parameters", 2, 1933),
        ("all parameters", 3, 36666),
        ("invalid values", 2, 59),
    ]
    assert len(suite) < 300


def test_another_seed_gives_another_array_that_is_complete_too() -> None:
    one, two = generate(PLAN, TWay(2), seed=1).rows, generate(PLAN, TWay(2), seed=2).rows
    assert one != two
    assert verify_rows(PLAN, two, TWay(2)).complete


def test_extending_from_2_to_3_to_4_keeps_the_cases_as_a_prefix() -> None:
    space = Space(PLAN.parameters[:12], PLAN.constraints[:1])
    two = generate(space, TWay(2), seed=3)
    three = generate(space, TWay(3), seed=3, existing=two.cases())
    four = generate(space, TWay(4), seed=3, existing=three.cases())
    assert three.rows[: len(two)] == two.rows
    assert four.rows[: len(three)] == three.rows
    assert len(two) < len(three) < len(four)
    assert verify_rows(space, four.rows, TWay(4)).complete
    # The same without a word about the existing cases.
    assert generate(space, TWay(4), seed=3).rows == four.rows


def test_extending_other_cases_covers_only_what_they_miss() -> None:
    some = generate(PLAN, Random(100), seed=1)
    suite = generate(PLAN, TWay(2), existing=some.cases())
    assert suite.rows[: len(some)] == some.rows
    assert verify_rows(PLAN, suite.rows, TWay(2)).complete
    assert len(suite) - len(some) < len(generate(PLAN, TWay(2)))


def test_a_family_is_covered_at_its_own_strength() -> None:
    strategy = TWay(
        2, (Family("ecn", ("p0", "p1", "p2", "p6", "p12"), 4), Family("ack", ("p3", "p12", "p13"), 3))
    )
    suite = generate(PLAN, strategy)
    report = verify_rows(PLAN, suite.rows, strategy)
    assert report.complete
    assert [(line.name, line.strength, line.total) for line in report.lines] == [
        ("all parameters", 2, 1933),
        ("ecn", 4, 760),
        ("ack", 3, 16),
        ("invalid values", 2, 59),
    ]
    assert not verify_rows(PLAN, generate(PLAN, TWay(2)).rows, strategy).complete


def test_a_group_counts_as_one_parameter_and_constraints_mention_its_members() -> None:
    space = Space(
        (
            Parameter("path", ("lan", "wan", "satellite")),
            Parameter("rto", ("5ms", "200ms")),
            Parameter("buffer", ("64KB", "1MB")),
        ),
        (
            parse("[delay] < [rto]"),
            parse('IF [rate] >= "1Gbit" THEN [buffer] = "1MB"'),
            parse("[delay] >= [jitter]"),
        ),
        (
            Derived("delay", "path", ("1ms", "20ms", "100ms")),
            Derived("rate", "path", ("10Gbit", "100Mbit", "10Mbit")),
            Derived("jitter", "path", ("0ms", "5ms", "1s")),
        ),
    )
    assert sorted(tuple(case.values()) for case in generate(space, Full()).cases()) == [
        ("lan", "200ms", "1MB"),
        ("lan", "5ms", "1MB"),
        ("wan", "200ms", "1MB"),
        ("wan", "200ms", "64KB"),
    ]
    suite = generate(space, TWay(2))
    assert verify_rows(space, suite.rows, TWay(2)).complete
    assert len(suite) == 4


def test_an_invalid_value_stands_alone_and_meets_every_other_level() -> None:
    space = Space(
        (
            Parameter("a", (0, 1), invalid=(7, 8)),
            Parameter("b", (0, 1, 2), invalid=(9,)),
            Parameter("c", (0, 1)),
        )
    )
    suite = generate(space, TWay(2))
    cases = list(suite.cases())
    refused = [case for case in cases if case["a"] in (7, 8) or case["b"] == 9]
    assert len(refused) == 3 + 3 + 2
    assert not any(case["a"] in (7, 8) and case["b"] == 9 for case in cases)
    assert {(case["a"], case["b"]) for case in refused if case["a"] == 7} == {(7, 0), (7, 1), (7, 2)}
    assert {(case["b"], case["c"]) for case in refused if case["b"] == 9} == {(9, 0), (9, 1)}


def test_a_constraint_does_not_judge_a_case_whose_invalid_value_it_mentions() -> None:
    space = Space(
        (Parameter("delay", ("1ms", "10ms"), invalid=("soon",)), Parameter("rto", ("5ms", "200ms"))),
        (parse("[delay] < [rto]"),),
    )
    suite = generate(space, TWay(2))
    assert [tuple(case.values()) for case in suite.cases() if case["delay"] == "soon"] in (
        [("soon", "5ms"), ("soon", "200ms")],
        [("soon", "200ms"), ("soon", "5ms")],
    )
    assert verify_rows(space, suite.rows, TWay(2)).complete


@pytest.mark.parametrize("strategy", [Full(), Random(3), Boundary(), OneAtATime()])
def test_other_strategies_try_each_invalid_value_once_beside_the_default(strategy: Strategy) -> None:
    space = Space((Parameter("a", (0, 1), invalid=(7, 8)), Parameter("b", (0, 1), default=1)))
    assert generate(space, strategy).rows[-2:] == [[2, 1], [3, 1]]


@pytest.mark.parametrize("strategy", [Full(), Random(20), Boundary(), OneAtATime(), TWay(2), TWay(3)])
def test_every_strategy_repeats_itself_and_keeps_existing_cases(strategy: Strategy) -> None:
    space = Space(PLAN.parameters[5:9], ())
    first = generate(space, strategy, seed=5)
    assert generate(space, strategy, seed=5).rows == first.rows
    before = [space.values([3, 2, 2, 2]), space.values([0, 1, 2, 0])]
    extended = generate(space, strategy, seed=5, existing=before)
    assert extended.rows[:2] == [[3, 2, 2, 2], [0, 1, 2, 0]]
    assert len({tuple(row) for row in extended.rows}) == len(extended)


def test_existing_cases_that_the_space_does_not_allow_are_refused() -> None:
    with pytest.raises(
        UserError, match=r"existing case 1 violates the constraint IF \[a\] = 2 THEN \[b\] = 1"
    ):
        generate(SMALL, TWay(2), existing=[{"a": 0, "b": 0, "c": "x"}, {"a": 2, "b": 0, "c": "x"}])


def test_a_contradiction_is_refused_by_name() -> None:
    with pytest.raises(ContradictionError):
        generate(Space(SMALL.parameters, (*SMALL.constraints, parse("[a] = 2"), parse("[b] = 0"))), TWay(2))


def test_one_parameter_and_none_that_varies_are_fine() -> None:
    assert generate(Space((Parameter("a", (0, 1, 2)),)), TWay(2)).rows in (
        [[a], [b], [c]] for a, b, c in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    )
    assert generate(Space((Parameter("a", (4,)),)), TWay(3)).rows == [[0]]


def test_more_constraints_than_the_generator_takes_are_joined() -> None:
    parameters = tuple(Parameter(f"p{n}", (0, 1, 2)) for n in range(20))
    texts = [f"[p{a}] <= [p{b}] OR [p{b}] = 0" for a in range(2) for b in range(2, 20)] * 8
    space = Space(parameters, tuple(parse(text) for text in texts))
    assert len(space.constraints) == 288
    assert verify_rows(space, generate(space, TWay(2)).rows, TWay(2)).complete


@given(spaces(invalid=True), st.integers(2, 4), st.integers(0, 2**40))
def test_the_array_of_any_space_is_complete_and_allowed(space: Space, strength: int, seed: int) -> None:
    assume(allowed_rows(space))
    suite = generate(space, TWay(strength), seed)
    report = verify_rows(space, suite.rows, TWay(strength))
    assert report.complete
    assert report.forbidden == ()
