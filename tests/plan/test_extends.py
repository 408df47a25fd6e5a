"""Plans that extend others: inherited and replaced entries, positions of errors, and the merged text."""

from pathlib import Path

import pytest

import plans
from tcpassay.errors import UserError
from tcpassay.plan import read

BASE = """\
name = "base"
doc = "What is shared."
seeds = [1, 2]
constraints = ['IF [stack.cc] = "vegas" THEN [app.flows] = 1']

[fixed]
"app.duration" = "20ms"
"link.rate" = "100Mbit"
"link.delay" = "1ms"

[axes]
"stack.cc" = ["reno", "cubic"]
"app.flows" = [1, 2]

[groups.shaper]
none = {}
htb = { "queue.kind" = "htb", "queue.rate" = "50Mbit" }

[limits]
case_time = "5s"
cases = 50

[strategy]
kind = "t-way"
strength = 2

[[check]]
metric = "timeouts"
op = "=="
value = 0
why = "nothing is lost"
"""

OWN = """\
name = "own"
extends = "base.toml"
"""


def plan(folder: Path, own: str, base: str = BASE) -> read.Plan:
    plans.write(folder, base, "base.toml")
    return read.read_file(plans.write(folder, own))


def refused(folder: Path, own: str, base: str = BASE) -> str:
    with pytest.raises(UserError) as caught:
        plan(folder, own, base)
    return str(caught.value).replace(f"{folder}/", "")


def test_a_plan_has_what_its_base_says_and_a_name_of_its_own(tmp_path: Path) -> None:
    made = plan(tmp_path, OWN)
    assert (made.spec.name, made.spec.doc, made.spec.seeds) == ("own", "What is shared.", [1, 2])
    assert [case.id for case in made.cases] == [case.id for case in read.read(BASE, tmp_path / "x").cases]
    assert refused(tmp_path, 'extends = "base.toml"\n').startswith("plan.toml: `name` is missing")


def test_a_parameter_that_is_set_here_leaves_the_base_whichever_section_it_stands_in(tmp_path: Path) -> None:
    own = OWN + '[fixed]\n"stack.cc" = "vegas"\n[axes]\n"link.delay" = ["1ms", "2ms"]\n"app.flows" = [1]\n'
    spec = plan(tmp_path, own).spec
    assert spec.fixed == {"app.duration": "20ms", "link.rate": "100Mbit", "stack.cc": "vegas"}
    assert spec.axes == {"app.flows": [1], "link.delay": ["1ms", "2ms"]}
    own = OWN + '[groups.path]\nnear = { "link.delay" = "1ms" }\nfar = { "link.delay" = "9ms" }\n'
    spec = plan(tmp_path, own).spec
    assert spec.fixed["link.delay"] == "1ms"  # the levels of a group override it
    assert list(spec.groups) == ["shaper", "path"]


def test_a_group_is_replaced_whole_and_may_not_be_cut_into(tmp_path: Path) -> None:
    spec = plan(tmp_path, OWN + '[groups.shaper]\nonly = { "queue.limit" = "50KB" }\n').spec
    assert spec.groups == {"shaper": {"only": {"queue.limit": "50KB"}}}
    message = refused(tmp_path, OWN + '[fixed]\n"queue.rate" = "10Mbit"\n')
    assert message == (
        "base.toml:17: `queue.rate` is set here (group `shaper`) and in plan.toml:4 (fixed); keep one"
    )


def test_tables_are_replaced_by_key_and_a_strategy_whole_where_it_names_its_kind(tmp_path: Path) -> None:
    spec = plan(tmp_path, OWN + "[limits]\ncases = 60\n[strategy]\nstrength = 3\n").spec
    assert (spec.limits.case_time, spec.limits.cases) == ("5s", 60)
    assert spec.strategy.model_dump() == {"kind": "t-way", "strength": 3, "seed": 1, "family": []}
    spec = plan(tmp_path, OWN + '[strategy]\nkind = "random"\ncount = 3\n').spec
    assert spec.strategy.model_dump() == {"kind": "random", "count": 3, "seed": 1}


def test_constraints_and_checks_are_added_and_a_figure_replaces_one_of_its_file(tmp_path: Path) -> None:
    figure = '[[figure]]\nkind = "distribution"\nfile = "{}"\ntitle = "{}"\n'
    base = BASE + figure.format("rtt", "of the base") + figure.format("other", "")
    own = OWN.replace("\n[", "\n") + "constraints = ['[app.flows] < 9']\n"
    own += '[[check]]\nmetric = "goodput"\nop = ">"\nvalue = 0\nwhy = "data arrive"\n'
    own += figure.format("rtt", "mine")
    spec = plan(tmp_path, own, base).spec
    assert spec.constraints == ['IF [stack.cc] = "vegas" THEN [app.flows] = 1', "[app.flows] < 9"]
    assert [check.metric for check in spec.check] == ["timeouts", "goodput"]
    assert [(one.file, one.title) for one in spec.figure] == [("other", ""), ("rtt", "mine")]


def test_a_mistake_in_the_base_is_reported_with_the_base_and_its_line(tmp_path: Path) -> None:
    message = refused(tmp_path, OWN, BASE.replace('"1ms"', '"1"'))
    assert message.startswith("base.toml:9: `link.delay` = `1`: ")
    message = refused(tmp_path, OWN, BASE.replace('why = "nothing is lost"\n', ""))
    assert message.startswith("base.toml:27: `check[0].why` is missing")
    message = refused(tmp_path, OWN, BASE.replace("[limits]", "[limits"))
    assert message.startswith("base.toml:19: not TOML")
    message = refused(
        tmp_path,
        OWN + '[fixed]\n"sender/stack.mtu" = "9000B"\n',
        BASE.replace('"link.delay" = "1ms"', '"stack.mtu" = "1500B"'),
    )
    assert message.startswith("plan.toml:4: `sender/stack.mtu` = `9000B`: ")
    assert "(`receiver/stack.mtu` is set in base.toml:9)" in message


def test_a_base_of_a_base_counts_and_a_circle_is_refused_with_its_members(tmp_path: Path) -> None:
    plans.write(tmp_path, BASE.replace("seeds = [1, 2]", "seeds = [5]"), "root.toml")
    middle = 'name = "middle"\nextends = "root.toml"\n[fixed]\n"link.delay" = "7ms"\n'
    made = plan(tmp_path, OWN, middle)
    assert made.spec.seeds == [5]
    assert made.spec.fixed["link.delay"] == "7ms"
    plans.write(tmp_path, OWN.replace("base", "plan"), "root.toml")
    assert refused(tmp_path, OWN, middle) == (
        "root.toml:2: `extends` = `plan.toml`: the plan would extend itself: "
        "`plan.toml` -> `base.toml` -> `root.toml` -> `plan.toml`"
    )
    assert "the plan would extend itself: `plan.toml` -> `plan.toml`" in refused(
        tmp_path, OWN.replace("base", "plan")
    )


def test_more_than_twenty_plans_that_extend_one_another_are_refused(tmp_path: Path) -> None:
    for n in range(30):
        plans.write(tmp_path, f'name = "x"\nextends = "{n + 1}.toml"\n', f"{n}.toml")
    with pytest.raises(UserError) as caught:
        read.read_file(tmp_path / "0.toml")
    assert str(caught.value) == (
        f"{tmp_path}/20.toml:2: `extends` = `21.toml`: more than 20 plans extend one another"
    )


def test_a_base_that_cannot_be_read_is_reported_where_it_is_asked_for(tmp_path: Path) -> None:
    message = refused(tmp_path, OWN.replace("base.toml", "nowhere.toml"))
    assert (
        message == "plan.toml:2: `extends` = `nowhere.toml`: cannot read the file: no such file or directory"
    )


def test_files_that_a_base_names_are_those_beside_the_base(tmp_path: Path) -> None:
    below = tmp_path / "shared"
    below.mkdir()
    (below / "rate.trace").write_text("0\n1\n2\n", encoding="utf-8")
    plans.write(
        below,
        BASE.replace('"link.rate" = "100Mbit"', '"link.rate" = "trace:rate.trace"').replace(
            '[groups.shaper]\nnone = {}\nhtb = { "queue.kind" = "htb", "queue.rate" = "50Mbit" }\n', ""
        ),
        "base.toml",
    )
    made = read.read_file(plans.write(tmp_path, OWN.replace("base.toml", "shared/base.toml")))
    assert made.spec.fixed["link.rate"] == "trace:shared/rate.trace"


def test_the_text_of_a_plan_that_extends_another_repeats_it_alone(tmp_path: Path) -> None:
    own = (
        OWN
        + '[strategy]\nkind = "t-way"\nstrength = 2\n[[strategy.family]]\nof = ["stack.cc", "shaper"]\nstrength = 2\n'
    )
    own += '[axes]\n"link.delay" = { from = "1ms", to = "9ms", steps = 3 }\n[negative]\n"link.loss" = ["2"]\n'
    own += '[collect]\nseries = "off"\n[[figure]]\nkind = "distribution"\nfile = "f"\ntitle = "a \\"b\\" \\u007f"\n'
    made = plan(tmp_path, own)
    (tmp_path / "base.toml").unlink()
    again = read.read(made.text, tmp_path / "elsewhere.toml")
    assert "extends" not in made.text
    assert again.cases == made.cases
    assert again.text == made.text
    assert again.spec.model_dump(exclude={"extends"}) == made.spec.model_dump(exclude={"extends"})


def test_the_text_of_any_other_plan_is_as_it_was_written(tmp_path: Path) -> None:
    made = read.read_file(plans.write(tmp_path, plans.SMALL + "# a remark\n"))
    assert made.text == plans.SMALL + "# a remark\n"
    assert made.with_seeds([7]).text == made.text
    assert read.read(made.with_seeds([3]).text, tmp_path / "p.toml").spec.seeds == [3]
