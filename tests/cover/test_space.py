"""Parameters, levels, constraints as tables."""

import pytest
from bruteforce import spaces
from hypothesis import given

from tcpassay.cover.space import Parameter, Space
from tcpassay.errors import UserError
from tcpassay.plan.constraint_parser import parse

CC = Parameter("stack.cc", ("reno", "cubic", "dctcp"), invalid=("nosuch",))
ECN = Parameter("stack.ecn", ("off", "classic", "dctcp"))
DELAY = Parameter("link.delay", ("1ms", "10ms", "100ms"))
RTO = Parameter("stack.min_rto", ("10ms", "200ms"))
BUFFER = Parameter("app.sndbuf", ("auto", "64KB"))


def test_a_rule_becomes_the_table_of_what_it_allows() -> None:
    space = Space((CC, ECN), (parse('IF [stack.cc] = "dctcp" THEN [stack.ecn] = "dctcp"'),))
    assert space.tables[0].scope == (0, 1)
    assert space.tables[0].allowed.tolist() == [[True, True, True], [True, True, True], [False, False, True]]


def test_a_comparison_of_parameters_has_its_axes_in_the_order_of_the_space() -> None:
    space = Space((RTO, DELAY), (parse("[link.delay] < [stack.min_rto]"),))
    assert space.tables[0].scope == (0, 1)
    assert space.tables[0].allowed.tolist() == [[True, False, False], [True, True, True]]


@given(spaces())
def test_tables_agree_with_the_evaluator(space: Space) -> None:
    for table in space.tables:
        names = [space.parameters[v].name for v in table.scope]
        for index in zip(*table.allowed.nonzero(), strict=True):
            levels = {name: int(level) for name, level in zip(names, index, strict=True)}
            assert table.constraint.holds(levels)
        for index in zip(*(~table.allowed).nonzero(), strict=True):
            levels = {name: int(level) for name, level in zip(names, index, strict=True)}
            assert not table.constraint.holds(levels)


def test_rows_and_cases_are_the_same_thing() -> None:
    space = Space((CC, DELAY))
    cases = [{"stack.cc": "dctcp", "link.delay": "10ms"}, {"stack.cc": "nosuch", "link.delay": "1ms"}]
    assert space.rows(cases) == [[2, 1], [3, 0]]
    assert [space.values(row) for row in space.rows(cases)] == cases
    assert space.rows([{"stack.cc": "dctcp", "link.delay": "0.01s"}]) == [[2, 1]]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"stack.cc": "reno"}, "case 0 gives no `link.delay`"),
        (
            {"stack.cc": "bbr", "link.delay": "1ms"},
            "`stack.cc` the value `bbr`; its levels are `reno`, `cubic`, `dctcp`, `nosuch`",
        ),
        (
            {"stack.cc": "reno", "link.delay": "1ms", "x": 1},
            "case 0 gives `x`, which is not a parameter of the plan",
        ),
    ],
)
def test_a_case_of_another_space_is_refused(case: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Space((CC, DELAY)).rows([case])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[stack.c] = "reno"',
            "mentions `stack.c`, which is not a parameter of the plan; did you mean `stack.cc`?",
        ),
        (
            '[link.delay] < "1MB"',
            "an order between `1ms`, which is a length of time, and `1MB`, which is a number of bytes",
        ),
        (
            "[link.delay] < 10",
            "asks for an order between `1ms`, which is a length of time, and `10`, which is a number",
        ),
        ('[stack.cc] < "reno"', "asks for an order between `reno`, which is a text"),
        ("[link.delay] < [app.sndbuf]", "asks for an order between `1ms`, which is a length of time"),
    ],
)
def test_a_constraint_that_does_not_fit_the_parameters_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        Space((CC, DELAY, BUFFER), (parse(text),))
    assert message in str(caught.value)


def test_a_level_without_order_beside_ordered_ones_is_no_mistake() -> None:
    space = Space((BUFFER,), (parse('[app.sndbuf] >= "1KB"'),))
    assert space.tables[0].allowed.tolist() == [False, True]
    only_auto = Parameter("app.sndbuf", ("auto",))
    assert Space((only_auto,), (parse('[app.sndbuf] >= "1KB"'),)).tables[0].allowed.tolist() == [False]


def test_a_value_that_is_no_level_is_pointed_out() -> None:
    space = Space((CC, ECN), (parse('IF [stack.cc] = "dctp" THEN [stack.ecn] IN {"dctcp", "classic"}'),))
    (note,) = space.unmatched()
    assert note == (
        "`dctp` is not a level of `stack.cc` (`reno`, `cubic`, `dctcp`) in: "
        'IF [stack.cc] = "dctp" THEN [stack.ecn] IN {"dctcp", "classic"}'
    )


def test_levels_that_mean_the_same_are_refused() -> None:
    with pytest.raises(UserError, match=r"lists `10ms` and `0.01s`, which mean the same"):
        Parameter("link.delay", ("10ms", "1ms", "0.01s"))


def test_no_level_a_wrong_default_and_a_parameter_given_twice_are_refused() -> None:
    with pytest.raises(UserError, match="`a` has no level"):
        Parameter("a", ())
    with pytest.raises(UserError, match="`a` has 2 levels; its default cannot be number 2"):
        Parameter("a", (1, 2), default=2)
    with pytest.raises(UserError, match=r"`stack.cc` is given twice"):
        Space((CC, CC))


def test_a_constraint_over_too_many_combinations_is_refused_with_their_number() -> None:
    parameters = tuple(Parameter(f"p{n}", tuple(range(10))) for n in range(7))
    text = " OR ".join(f"[p{n}] = 1" for n in range(7))
    with pytest.raises(UserError, match="connects 7 parameters with 10000000 combinations"):
        Space(parameters, (parse(text),))
