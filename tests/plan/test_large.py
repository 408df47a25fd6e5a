"""A plan with many cases: errors in values are found before all cases are checked."""

from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.plan.expand import Expander
from tcpassay.plan.read import read

TEXT = """\
name = "large"
[fixed]
"app.duration" = "1s"
[axes]
"link.delay" = [{delays}]
"queue.limit" = [{limits}]
"stack.cc" = ["reno", {controllers}]
"stack.ecn" = ["off", "classic"]
"""


def text(controllers: str, delay: str = "21ms") -> str:
    delays = ", ".join([*(f'"{n}ms"' for n in range(1, 21)), f'"{delay}"'])
    limits = ", ".join(f'"{n}KB"' for n in range(101, 201))
    return TEXT.format(delays=delays, limits=limits, controllers=controllers)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of cases that the data plane checks."""
    count = [0]
    before = Expander.cases

    def cases(self: Expander, row: list[int]) -> object:
        count[0] += 1
        return before(self, row)

    monkeypatch.setattr(Expander, "cases", cases)
    return count


def test_a_wrong_value_among_8400_cases_is_found_after_as_many_checks_as_there_are_values(
    checked: list[int],
) -> None:
    with pytest.raises(UserError) as refused:
        read(text('"rneo"', "21m"), Path("plan.toml"))
    said = [problem.message for problem in refused.value.problems]
    assert len(said) == 2
    assert any("`stack.cc` = `rneo`" in one for one in said)
    assert any("`link.delay` = `21m`" in one for one in said)
    assert 0 < checked[0] <= 21 + 100 + 2 + 2


def test_a_controller_without_ecn_among_many_cases_is_found_soon_with_its_number_of_cases(
    checked: list[int],
) -> None:
    with pytest.raises(UserError) as refused:
        read(text('"dctcp"'), Path("plan.toml"))
    (problem,) = refused.value.problems
    assert "4200 of 8400 cases" in problem.message or "`stack.cc` = `dctcp`" in problem.message
    assert 0 < checked[0] <= 21 + 100 + 2 + 2


def test_a_valid_plan_of_many_cases_has_each_of_them_once(checked: list[int]) -> None:
    plan = read(text('"cubic"'), Path("plan.toml"))
    assert len(plan.cases) == len({case.id for case in plan.cases}) == 8400
    assert 8400 < checked[0] <= 8400 + 21 + 100 + 2 + 2
