"""The constraint language: syntax, meaning, and messages about errors."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcpassay.errors import Place, UserError
from tcpassay.plan.constraint_parser import ConstraintError, parse
from tcpassay.plan.quantity import Value

DCTCP: dict[str, Value] = {
    "cc": "dctcp",
    "ecn": "off",
    "delay": "10ms",
    "rtt": "0.01s",
    "buffer": "auto",
    "n": 3,
    "sack": True,
}


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ('[cc] = "dctcp"', True),
        ('[cc] = "DCTCP"', False),
        ('[cc] <> "dctcp"', False),
        ('[delay] = "10000us"', True),
        ("[delay] = [rtt]", True),
        ("[delay] < [rtt]", False),
        ("[delay] <= [rtt]", True),
        ('[delay] > "9.999ms"', True),
        ("[n] >= 3", True),
        ("[n] >= 3.5", False),
        ('[buffer] < "1MB"', False),
        ('[buffer] >= "1MB"', False),
        ('[buffer] <= "1MB"', False),
        ('[buffer] <> "1MB"', True),
        ("[sack] = TRUE", True),
        ('[sack] = "on"', True),
        ('[sack] LIKE "o?"', True),
        ("[sack] = 1", False),
        ('[cc] IN {"reno", "dctcp"}', True),
        ('[cc] NOT IN {"reno", "dctcp"}', False),
        ('[cc] LIKE "d*p"', True),
        ('[cc] LIKE "d?tcp"', True),
        ('[cc] LIKE "ctcp"', False),
        ('[cc] NOT LIKE "d*"', False),
        ('IF [cc] = "dctcp" THEN [ecn] IN {"dctcp", "accurate"}', False),
        ('IF [cc] = "reno" THEN [ecn] = "classic"', True),
        ('IF [cc] = "reno" THEN [n] = 1 ELSE [n] = 3', True),
        ('IF [cc] = "reno" THEN [n] = 3 ELSE [n] = 1', False),
        ('NOT [n] = 3 OR [ecn] = "off"', True),
        ('NOT ([n] = 3 OR [ecn] = "off")', False),
        ('[n] = 3 OR [n] = 4 AND [ecn] = "on"', True),
        ('([n] = 3 OR [n] = 4) AND [ecn] = "on"', False),
        ('if [n] = 3 then [ecn] = "off";', True),
    ],
)
def test_a_constraint_holds_or_not(text: str, true: bool) -> None:  # noqa: FBT001
    assert parse(text).holds(DCTCP) is true


def test_parameters_come_in_order_of_mention_and_once() -> None:
    assert parse('IF [b] = 1 AND [a] < [c] THEN [b] = 2 ELSE [d] LIKE "x"').parameters == ("b", "a", "c", "d")


@pytest.mark.parametrize(
    ("text", "line", "column", "expected", "found"),
    [
        ('IF [a] = "x" [b] = 1', 1, 14, "AND, OR or THEN", "`[b]`"),
        ("IF [a] = 1", 1, 11, "AND, OR or THEN", "the end"),
        (
            "IF [a] = 1\nTHEN\n  [b] ~ 2",
            3,
            7,
            "a parameter in brackets, a value, an operator or a keyword",
            "`~`",
        ),
        (
            "[a] = x",
            1,
            7,
            'a value or a parameter in brackets (a text or a quantity needs quotation marks: `"x"`)',
            "`x`",
        ),
        (
            "[a] < 10ms",
            1,
            7,
            'a value or a parameter in brackets (a text or a quantity needs quotation marks: `"10ms"`)',
            "`10ms`",
        ),
        ("[a] != 1", 1, 5, "one of = <> < <= > >= IN LIKE NOT (write `<>`)", "`!=`"),
        ("[a] IN {1 2}", 1, 11, "`,` or `}`", "`2`"),
        ("[a] IN 1", 1, 8, "`{`", "`1`"),
        ("[a] NOT = 1", 1, 9, "IN or LIKE", "`=`"),
        ("([a] = 1", 1, 9, "AND, OR or `)`", "the end"),
        ("[a] = 1 [b] = 2", 1, 9, "AND, OR or the end", "`[b]`"),
        ("[a = 1", 1, 1, "the closing bracket on the same line", "a parameter without it"),
        ("[] = 1", 1, 1, "the path of a parameter", "`[]`"),
        ("[a] = 'x'", 1, 7, 'a text in quotation marks as in `"dctcp"`', "`'`"),
        ("", 1, 1, "a parameter in brackets as in `[stack.cc]`, NOT or `(`", "the end"),
        ("NOT " * 51 + "[a] = 1", 1, 201, "at most 50 levels of NOT and parentheses", "`NOT`"),
    ],
)
def test_an_error_is_reported_with_its_position_and_the_expected_value(
    text: str, line: int, column: int, expected: str, found: str
) -> None:
    with pytest.raises(ConstraintError) as caught:
        parse(text)
    error = caught.value
    assert (error.line, error.column, error.expected, error.found) == (line, column, expected, found)


def test_the_message_shows_file_place_and_the_text_with_a_caret() -> None:
    with pytest.raises(UserError) as caught:
        parse('IF [a] = "x" [b] = 1', Place(Path("plan.toml"), 14))
    assert str(caught.value) == (
        "plan.toml:14: constraint, line 1, column 14: expected AND, OR or THEN, found `[b]`\n"
        '    IF [a] = "x" [b] = 1\n'
        "                 ^"
    )


def test_a_quotation_mark_and_a_backslash_can_be_escaped() -> None:
    assert parse(r'[a] = "x\"y\\z"').holds({"a": 'x"y\\z'})


@given(st.text(alphabet='[]ab "\\=<>{}(),;1.5xms\n', max_size=40) | st.text(max_size=20))
def test_no_text_makes_the_parser_crash(text: str) -> None:
    mistake = None
    try:
        parse(text)
    except ConstraintError as error:
        mistake = error
    if mistake is not None:
        assert 1 <= mistake.line <= text.count("\n") + 1
        assert 1 <= mistake.column <= len(text.split("\n")[mistake.line - 1]) + 1


WORDS = [
    "IF",
    "THEN",
    "ELSE",
    "AND",
    "OR",
    "NOT",
    "IN",
    "LIKE",
    "TRUE",
    "(",
    ")",
    "{",
    "}",
    ",",
    "=",
    "<",
    "[a]",
    "[b]",
    '"x"',
    "1",
]


@given(st.lists(st.sampled_from(WORDS), max_size=15))
def test_every_constraint_that_is_parsed_can_be_evaluated(words: list[str]) -> None:
    try:
        constraint = parse(" ".join(words))
    except ConstraintError:
        return
    assert set(constraint.parameters) <= {"a", "b"}
    assert constraint.holds({"a": 1, "b": "x"}) in (True, False)
