"""The examples of `docs/constraints.md` have the described results."""

import re
from pathlib import Path

import pytest

from tcpassay.cover.contradiction import ContradictionError, check
from tcpassay.cover.space import Parameter, Space
from tcpassay.errors import Place, UserError
from tcpassay.plan.constraint_parser import parse

TEXT = (Path(__file__).parents[2] / "docs" / "constraints.md").read_text()
PLAN = Path("plan.toml")


@pytest.mark.parametrize("text", re.findall(r"```constraint\n(.*?)```", TEXT, re.DOTALL))
def test_an_example_is_a_constraint(text: str) -> None:
    assert parse(text).parameters


def test_the_messages_are_those_of_the_program() -> None:
    mistake, contradiction = re.findall(r"```\n(plan\.toml.*?)\n```", TEXT, re.DOTALL)
    with pytest.raises(UserError) as caught:
        parse('IF [stack.cc] = "dctcp" [stack.ecn] = "dctcp"', Place(PLAN, 14))
    assert str(caught.value) == mistake
    lines = {
        11: '[stack.cc] = "dctcp"',
        12: 'IF [stack.cc] = "dctcp" THEN [stack.ecn] = "dctcp"',
        13: "[stack.sack] = TRUE",
        14: '[stack.ecn] = "off"',
    }
    parameters = (
        Parameter("stack.cc", ("reno", "dctcp")),
        Parameter("stack.ecn", ("off", "dctcp")),
        Parameter("stack.sack", (True, False)),
    )
    with pytest.raises(ContradictionError) as refused:
        check(Space(parameters, tuple(parse(text, Place(PLAN, line)) for line, text in lines.items())))
    assert str(refused.value) == contradiction
