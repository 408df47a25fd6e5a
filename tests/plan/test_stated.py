"""Cases that a plan states beside those of its axes."""

from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.plan.read import Plan, read

HEAD = 'name = "p"\n[fixed]\n"app.duration" = "10ms"\n"link.loss" = "1%"\n'
AXES = '[axes]\n"stack.cc" = ["reno", "cubic"]\n'


def plan(text: str) -> Plan:
    return read(text, Path("p.toml"))


def test_a_stated_case_has_the_fixed_settings_and_its_own_which_replace_them() -> None:
    made = plan(
        HEAD + AXES + '[[case]]\n"stack.cc" = "vegas"\n"link.loss" = "2%"\n[[case]]\nstack.sack = "off"\n'
    )
    assert [case.label for case in made.cases] == ["cc=reno", "cc=cubic", "cc=vegas, loss=2%", "sack=off"]
    assert made.cases[2].triples == {"app.duration": "10ms", "link.loss": "2%", "stack.cc": "vegas"}
    assert made.cases[3].triples == {"app.duration": "10ms", "link.loss": "1%", "stack.sack": "off"}
    # It has the name that it would have in any other plan.
    alone = plan('name = "q"\n[[case]]\n"stack.cc" = "vegas"\n"link.loss" = "2%"\n"app.duration" = "10ms"\n')
    assert [case.id for case in alone.cases] == [made.cases[2].id]


def test_a_stated_case_runs_on_every_substrate() -> None:
    made = plan(
        HEAD.replace("[fixed]", 'substrates = ["model", "kernel"]\n[fixed]')
        + '[[case]]\n"stack.cc" = "vegas"\n'
    )
    assert [(case.substrate, case.varied.get("stack.cc")) for case in made.cases] == [
        ("model", None),
        ("kernel", None),
        ("model", "vegas"),
        ("kernel", "vegas"),
    ]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ('"stack.cc" = "bogus"', "p.toml:8: `stack.cc` = `bogus`: allowed is"),
        ('"stack.ccc" = "reno"', "p.toml:8: `stack.ccc`: no such parameter; did you mean `stack.cc`?"),
        ('"link.rate" = "1Gbps"', "p.toml:8: `link.rate` = `1Gbps`: .*write `1Gbit`"),
        ('"stack.cc" = "reno"', "`cc=reno` and `cc=reno` are the same case"),
        ("", "`case"),
    ],
)
def test_an_error_in_a_stated_case_has_its_line(case: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        plan(f"{HEAD}{AXES}[[case]]\n{case}\n")


def test_a_search_has_no_stated_cases() -> None:
    with pytest.raises(UserError, match=r"p.toml:7: `case`: `search` derives its cases itself"):
        plan(
            HEAD + AXES + '[[case]]\n"stack.cc" = "vegas"\n[strategy]\nkind = "search"\nmetric = "goodput"\n'
            "budget = { runs = 4 }\n"
        )


def test_a_plan_that_extends_another_has_the_stated_cases_of_both(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(HEAD + '[[case]]\n"stack.cc" = "vegas"\n', encoding="utf-8")
    made = read('name = "q"\nextends = "base.toml"\n[[case]]\n"stack.cc" = "bbr"\n', tmp_path / "q.toml")
    assert [case.label for case in made.cases] == ["", "cc=vegas", "cc=bbr"]
    assert [case.id for case in read(made.text, tmp_path / "r.toml").cases] == [
        case.id for case in made.cases
    ]
