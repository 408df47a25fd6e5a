"""Contradictions name the constraints involved, and only those."""

from itertools import combinations
from pathlib import Path

import pytest
from bruteforce import allowed_rows, spaces
from hypothesis import given

from tcpassay.cover.contradiction import ContradictionError, check, dead_levels
from tcpassay.cover.space import Parameter, Space
from tcpassay.errors import Place
from tcpassay.plan.constraint_parser import parse

PARAMETERS = (
    Parameter("cc", ("reno", "dctcp")),
    Parameter("ecn", ("off", "dctcp")),
    Parameter("mark", ("off", "data")),
    Parameter("tso", (True, False)),
)


def space(*texts: str) -> Space:
    return Space(
        PARAMETERS, tuple(parse(text, Place(Path("plan.toml"), 10 + n)) for n, text in enumerate(texts))
    )


def test_only_the_constraints_that_contradict_each_other_are_named() -> None:
    with pytest.raises(ContradictionError) as caught:
        check(
            space(
                'IF [tso] = TRUE THEN [mark] = "data"',
                '[cc] = "dctcp"',
                'IF [cc] = "dctcp" THEN [ecn] = "dctcp"',
                'IF [mark] = "off" THEN [tso] = FALSE',
                '[ecn] = "off"',
            )
        )
    assert str(caught.value) == (
        "plan.toml:11: no case is possible: these constraints contradict each other in this plan:\n"
        '    [cc] = "dctcp" (plan.toml:11)\n'
        '    IF [cc] = "dctcp" THEN [ecn] = "dctcp" (plan.toml:12)\n'
        '    [ecn] = "off" (plan.toml:14)'
    )


def test_one_constraint_that_no_level_satisfies_is_named_alone() -> None:
    with pytest.raises(ContradictionError) as caught:
        check(space("[tso] = TRUE", '[cc] = "cubic"'))
    assert str(caught.value) == (
        "plan.toml:11: no case is possible: this constraint never holds in this plan: "
        '[cc] = "cubic" (plan.toml:11)'
    )


def test_a_level_that_no_case_can_have_is_explained() -> None:
    found = dead_levels(
        space(
            'IF [cc] = "dctcp" THEN [ecn] = "dctcp"',
            "[tso] = [tso]",
            'IF [ecn] = "dctcp" THEN [mark] = "data"',
            '[mark] = "off"',
        )
    )
    assert "\n".join(map(str, found)) == (
        '`cc` can never be `dctcp` because of: IF [cc] = "dctcp" THEN [ecn] = "dctcp" (plan.toml:10); '
        'IF [ecn] = "dctcp" THEN [mark] = "data" (plan.toml:12); [mark] = "off" (plan.toml:13)\n'
        '`ecn` can never be `dctcp` because of: IF [ecn] = "dctcp" THEN [mark] = "data" (plan.toml:12); '
        '[mark] = "off" (plan.toml:13)\n'
        '`mark` can never be `data` because of: [mark] = "off" (plan.toml:13)'
    )


@given(spaces())
def test_the_named_constraints_contradict_each_other_and_no_subset_does(space: Space) -> None:
    if allowed_rows(space):
        check(space)
        return
    with pytest.raises(ContradictionError) as caught:
        check(space)
    named = caught.value.constraints
    assert not allowed_rows(Space(space.parameters, named))
    for fewer in combinations(named, len(named) - 1):
        assert allowed_rows(Space(space.parameters, fewer))


@given(spaces())
def test_dead_levels_are_those_of_no_allowed_row(space: Space) -> None:
    rows = allowed_rows(space)
    if not rows:
        return
    expected = {
        (parameter.name, level)
        for v, parameter in enumerate(space.parameters)
        for n, level in enumerate(parameter.levels)
        if not any(row[v] == n for row in rows)
    }
    assert {(dead.parameter, dead.level) for dead in dead_levels(space)} == expected
