"""The constraint that is proposed for a refusal, with artificial rules of the data plane."""

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import pytest

from tcpassay.cover.space import Parameter, Space
from tcpassay.errors import Problem
from tcpassay.plan.constraint_parser import parse
from tcpassay.plan.refusals import Error, Refusals

if TYPE_CHECKING:
    from tcpassay.plan.expand import Expander

SPACE = Space(
    (Parameter("a", (0, 1, 2)), Parameter("b", (0, 1, 2)), Parameter("c", (0, 1, 2)), Parameter("d", (0, 1)))
)
ROWS = [list(row) for row in itertools.product(*(range(size) for size in SPACE.sizes))]


class Rule:
    """A data plane with one rule, about `a` and `b`, that looks at the others, too."""

    space = SPACE

    def __init__(self, broken: Callable[..., bool]) -> None:
        self.broken = broken

    def case(self, row: Sequence[int]) -> tuple[dict[str, Any], dict[str, Any], str]:
        return SPACE.values(row), {}, ""

    def errors(self, triples: dict[str, Any]) -> list[Error]:
        return [("a", "b", None, "it is broken")] if self.broken(**triples) else []

    def setter(self, path: str, _row: Sequence[int]) -> tuple[str, ...]:
        return ("axes", path)

    def problem(self, _error: Error, _row: Sequence[int], more: str) -> Problem:
        return Problem(more)


def left_out(broken: Callable[..., bool]) -> list[list[int]]:
    """The rows that the proposed constraints exclude if all rows are cases."""
    plane = Rule(broken)
    refusals = Refusals(cast("Expander", plane), len(ROWS), 20)
    for row in ROWS:
        if errors := plane.errors(SPACE.values(row)):
            refusals.add(row, errors)
    texts = [line for problem in refusals.problems() for line in problem.message.splitlines()[1:]]
    constraints = [parse(text.strip(" ,").strip("'")) for text in texts]
    return [row for row in ROWS if not all(one.holds(SPACE.values(row)) for one in constraints)]


RULES: dict[str, Callable[..., bool]] = {
    "two settings": lambda a, b, c, d: a == 1 and b > 0,  # noqa: ARG005
    "two settings by their order": lambda a, b, c, d: a > b,  # noqa: ARG005
    "two settings that must be equal": lambda a, b, c, d: a != b,  # noqa: ARG005
    "a third that counts with one of the pair only": lambda a, b, c, d: (  # noqa: ARG005
        a == 1 and ((b == 1 and c < 2) or (b == 2 and c == 0))
    ),
    "a value that is wrong with all of the other, beside one that is not": lambda a, b, c, d: (
        d == 1 and c == 0 and (b == 2 or (b == 1 and a == 1))
    ),
    "a value that is wrong with all of the other, after one that is not": lambda a, b, c, d: (  # noqa: ARG005
        a == 2 or (a == 1 and b == 2)
    ),
    "one that does not matter in the first case but in others": lambda a, b, c, d: (
        a == 1 and (b == 0 or (b == 1 and c == 0) or (b == 2 and d == 1 and c == 1))
    ),
    "three settings, whatever the rest": lambda a, b, c, d: a + b + c == 4,  # noqa: ARG005
}


@pytest.mark.parametrize("what", RULES)
def test_the_proposed_constraint_excludes_exactly_the_refused_cases(what: str) -> None:
    broken = RULES[what]
    assert left_out(broken) == [row for row in ROWS if broken(**SPACE.values(row))]
