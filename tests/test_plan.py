"""Reading plans: the content of valid plans, and the messages about invalid ones."""

from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plans
from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.plan import read, schema, table

FILE = Path("plan.toml")


def problems(text: str) -> str:
    with pytest.raises(UserError) as caught:
        read.read(text, FILE)
    return str(caught.value)


def test_the_cases_are_the_product_of_the_axes_in_the_order_of_the_file() -> None:
    plan = read.read(plans.SMALL.replace('"cubic"]', '"cubic"]\n"app.flows" = [1, 2]'), FILE)
    assert [case.varied for case in plan.cases] == [
        {"stack.cc": "reno", "app.flows": 1},
        {"stack.cc": "reno", "app.flows": 2},
        {"stack.cc": "cubic", "app.flows": 1},
        {"stack.cc": "cubic", "app.flows": 2},
    ]
    assert plan.cases[1].triples["link.rate"] == "100Mbit"


def test_a_group_sets_several_parameters_together_and_varies_under_its_own_name() -> None:
    group = '\n[groups.shaper]\nnone = {}\nhtb = { "queue.kind" = "htb", "queue.rate" = "50Mbit" }\n'
    plan = read.read(plans.SMALL + group, FILE)
    shaped = plan.select({"shaper": "htb", "stack.cc": "reno"})
    assert [case.triples.get("queue.rate") for case in shaped] == ["50Mbit"]
    assert [case.triples.get("queue.rate") for case in plan.select({"shaper": "none"})] == [None, None]


def test_quoted_and_dotted_paths_mean_the_same() -> None:
    dotted = plans.SMALL.replace('"link.rate"', "link.rate").replace('"stack.cc"', "stack.cc")
    assert read.read(dotted, FILE).cases == read.read(plans.SMALL, FILE).cases


def test_a_case_keeps_its_name_when_the_plan_says_a_default_or_gets_more_axes() -> None:
    small = read.read(plans.SMALL, FILE)
    more = read.read(
        plans.SMALL.replace(
            '"1ms"\n\n[axes]', '"1ms"\n"app.workload" = "bulk"\n\n[axes]\n"app.flows" = [1, 3]'
        ),
        FILE,
    )
    assert {case.id for case in small.cases} < {case.id for case in more.cases}


def test_the_partner_of_a_case_differs_only_in_what_is_named() -> None:
    plan = read.read(plans.SMALL.replace('"cubic"]', '"cubic"]\n"app.flows" = [1, 2]'), FILE)
    partner = plan.partner(plan.cases[1], {"stack.cc": "cubic"})
    assert partner.varied == {"stack.cc": "cubic", "app.flows": 2}


# Each row: the replaced text, its replacement, and the required parts of the message.
BAD = {
    "a parameter that does not exist": ('"link.delay"', '"link.dealy"', ["`link.dealy`", "link.delay"]),
    "an axis that does not exist": ('"stack.cc"', '"stack.ccc"', ["`stack.ccc`", "stack.cc"]),
    "a bare number where a unit is needed": (
        '"link.delay" = "1ms"',
        '"link.delay" = 1',
        ["`link.delay` = `1`", "unit", "10ms"],
    ),
    "the unit of another kind": (
        '"link.delay" = "1ms"',
        '"link.delay" = "1KB"',
        ["`link.delay` = `1KB`", "ns us ms s min h"],
    ),
    "a value out of range": ('"20ms"', '"2h"', ["`app.duration` = `2h`", "3600s"]),
    "a warm-up that leaves nothing to measure": (
        'series = "1ms"',
        'series = "1ms"\nwarmup = "20ms"',
        ["`collect.warmup` = `20ms`", "`app.duration` = `20ms`", "shorter"],
    ),
    "a link that nothing crosses in time": (
        '"link.rate" = "100Mbit"',
        '"link.rate" = "1bit"',
        ["`link.rate` = `1bit`", "app.duration", "cross the link"],
    ),
    "a word that is not among the choices": ('"cubic"]', '"qubic"]', ["`stack.cc` = `qubic`", "cubic"]),
    "a substrate that does not support it": (
        '"link.rate" = "100Mbit"',
        '"app.blocking" = true',
        ["`app.blocking` = `on`", "kernel, host"],
    ),
    "an MTU that differs along the path": (
        '"link.rate" = "100Mbit"',
        '"sender/stack.mtu" = "9000B"',
        ["`sender/stack.mtu` = `9000B`", "receiver/stack.mtu", "the MTU must be equal along a path"],
    ),
    "a key of no section": (
        'doc = "',
        'dok = "',
        ["unknown key `dok`", "did you mean `doc`?", "name, doc, extends"],
    ),
    "packets that nobody looks at": (
        'series = "1ms"',
        "taps = false\npackets = true",
        ["`collect.packets`", "`taps = false`"],
    ),
    "a key of a check": ("why = ", "wy = ", ["unknown key `check[0].wy`", "`why`", "metric, where, op"]),
    "a comparison that does not exist": (
        'op = "=="',
        'op = "="',
        ["`check[0].op` = `=`", "<, <=, ==, !=, >=, >"],
    ),
    "a threshold that is no number": ("value = 0", 'value = "0"', ["`check[0].value` = `0`", "a number"]),
    "a metric that does not exist": ('"timeouts"', '"timeoutz"', ["`timeoutz`", "did you mean `timeouts`?"]),
    "a selector of what does not vary": (
        'op = "=="',
        'op = "=="\nwhere = { "stack.ecn" = "off" }',
        ["`stack.ecn`: the plan does not set it", "`stack.cc`"],
    ),
    "a selector of a value that is not there": (
        'op = "=="',
        'op = "=="\nwhere = { "stack.cc" = "vegas" }',
        ["`stack.cc` = `vegas`: selects nothing", "`reno`, `cubic`"],
    ),
    "a comparison with itself": (
        'op = "=="',
        'op = "=="\ntimes = { "stack.cc" = "reno" }',
        ["compared with itself"],
    ),
    "a negative seed": ("[7]", "[-7]", ["`seeds[0]` = `-7`", "from 0 to 9223372036854775807"]),
    "a seed twice": ("[7]", "[7, 7]", ["`seeds`: 7 is listed twice"]),
    "no seed": ("[7]", "[]", ["`seeds`", "at least one value"]),
    "an axis without a value": ('["reno", "cubic"]', "[]", ["`axes.stack.cc`", "list"]),
    "a list as a fixed value": ('"100Mbit"', '["100Mbit"]', ["`fixed.link.rate`", "a text, a number"]),
    "a value twice": ('"cubic"]', '"reno"]', ["`stack.cc`: `reno` is listed twice"]),
    "fixed and varied": ('"stack.cc" =', '"link.rate" =', ["`link.rate`", "in line 7 (fixed)"]),
    "an interval without a unit": ('series = "1ms"', "series = 1", ["`collect.series` = `1`", "10ms"]),
    "a constraint that is no text": (
        "seeds = [7]",
        "constraints = [7]",
        ["`constraints[0]` = `7`: allowed is a text (conditions on the parameters that hold in every case"],
    ),
    "a strategy that is no table": (
        "seeds = [7]",
        'strategy = "full"',
        ["`strategy` = `full`: allowed is a table"],
    ),
    "a limit without a unit": ("seeds = [7]", "limits.case_time = 60", ["`limits.case_time` = `60`", "10ms"]),
    "a share that is none": (
        "seeds = [7]",
        'keep.sample = "101%"',
        ["`keep.sample` = `101%`", "from 0% to 100%"],
    ),
    "no repetition": ("seeds = [7]", "repetitions = 0", ["`repetitions` = `0`", "from 1 to 1000"]),
    "an axis of a range without its end": (
        '"stack.cc" = ["reno", "cubic"]',
        '"link.jitter" = { from = "0s", steps = 3 }',
        ["`axes.link.jitter.to` is missing", "The last value"],
    ),
    "a name that is no file name": ('"small"', '"a/b"', ["`name` = `a/b`", "letters, digits"]),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_reported_with_value_what_is_allowed_and_line(what: str) -> None:
    old, new, parts = BAD[what]
    assert plans.SMALL.count(old) == 1
    text = plans.SMALL.replace(old, new)
    message = problems(text)
    line = text[: text.rindex(new) + len(new)].count("\n") + 1
    assert f"plan.toml:{line}: " in message
    for part in parts:
        assert part in message


def test_all_problems_are_reported_at_once_each_with_its_line() -> None:
    text = plans.SMALL.replace('"20ms"', '"20"').replace('"cubic"', '"qubic"')
    lines = problems(text).splitlines()
    assert [line.split(": ")[0] for line in lines] == ["plan.toml:6", "plan.toml:11"]


def test_malformed_toml_is_reported_with_line_and_column_and_the_line_is_not_quoted() -> None:
    message = problems(plans.SMALL.replace('op = "=="', 'op = "=='))
    assert message.startswith(f"plan.toml:{plans.line_of(plans.SMALL, 'op =')}: not TOML: ")
    assert "(column " in message
    assert "==" not in message


def test_a_path_given_twice_in_two_spellings_is_reported_with_both_lines() -> None:
    message = problems(plans.SMALL.replace('"link.delay" = "1ms"', 'link.rate = "1Gbit"'))
    assert message == "plan.toml:8: `link.rate` is set here and in line 7; keep one"


def test_a_contradiction_between_two_parameters_names_both_places() -> None:
    text = plans.SMALL.replace('"link.rate" = "100Mbit"', '"queue.ecn_mark" = "data"\n"stack.ecn" = "off"')
    message = problems(text)
    assert "plan.toml:7: `queue.ecn_mark` = `data`" in message
    assert "(`stack.ecn` is set in line 8)" in message


def test_a_product_too_large_says_the_number_before_anything_is_made() -> None:
    axis = "\n".join(f'"link.{name}" = {list(range(100))}' for name in ("loss", "ack_loss", "jitter"))
    message = problems(plans.SMALL.replace("[axes]", f"[axes]\n{axis}"))
    assert "the full product has 2000000 cases; allowed are at most 100000 (`limits.cases`)" in message


def test_a_missing_key_says_what_it_is_for() -> None:
    assert "`check[0].why` is missing" in problems(plans.SMALL.replace('why = "nothing is lost"\n', ""))
    assert problems("").startswith("plan.toml: `name` is missing; it is needed: Short name")


def test_a_figure_of_an_unknown_kind_says_which_there_are() -> None:
    message = problems(plans.SMALL + '\n[[figure]]\nkind = "timelin"\nfile = "x"\n')
    assert (
        "plan.toml:22: `figure[0].kind` = `timelin`: allowed are timeline, sequence, distribution" in message
    )
    assert "did you mean `timeline`?" in message


def test_a_plan_may_set_every_parameter_of_the_table_to_its_default_and_names_no_other_case_by_it() -> None:
    rows = [row for row in table.parameters().values() if "model" in row.substrates]
    assert len(rows) > 90
    for row in rows:
        if row.default != "controller":
            assert _native.check_case({row.path: row.default}, ".") == {}, row.path


def test_every_parameter_that_takes_amounts_says_what_they_are_counted_in() -> None:
    units = {path: row.unit for path, row in table.parameters().items()}
    said = (
        "stack.small_queues",
        "link.delay",
        "link.rate",
        "nic.rate",
        "link.loss",
        "app.flows",
        "stack.cc.g",
        "stack.cc",
    )
    assert [units[path] for path in said] == ["B", "s", "bit/s", "bit/s", "1", "1", "1", ""]


def test_every_parameter_refuses_an_invalid_value_with_the_allowed_values_of_the_table() -> None:
    for row in table.parameters().values():
        if "model" not in row.substrates or row.default == "controller" or row.kind == "text":
            continue
        with pytest.raises(_native.CaseError) as caught:
            _native.check_case({row.path: "?!"}, ".")
        ((path, _, value, why),) = caught.value.args[0]
        assert (path, value) == (row.path, "?!")
        assert row.allowed in why or "allowed are a number and one of" in why, (row.path, why)


def test_the_schema_accepts_the_plans_and_refuses_what_the_reader_refuses() -> None:
    validator = jsonschema.Draft202012Validator(schema.schema())
    for file in sorted(plans.PLANS.glob("*.toml")):
        data, _ = _native.read_toml(file.read_text(encoding="utf-8"))
        validator.validate(data)
    data, _ = _native.read_toml(plans.SMALL)
    validator.validate(data)
    assert not validator.is_valid(data | {"colect": {}})
    assert not validator.is_valid(data | {"axes": {"stack.cc": ["qubic"]}})
    assert not validator.is_valid(data | {"fixed": {"stack.cc": ["reno"]}})
    for good in (
        {"from": "1ms", "to": "9ms", "steps": 3},
        {"distribution": "choice", "values": ["1ms"], "count": 1},
    ):
        assert validator.is_valid(data | {"axes": {"link.delay": good}})
    assert not validator.is_valid(data | {"axes": {"link.delay": {"from": "1ms", "steps": 3}}})
    assert not validator.is_valid(data | {"negative": {"stack.cc": "tahoe"}})
    assert not validator.is_valid(data | {"strategy": {"kind": "random"}})
    assert validator.is_valid(data | {"strategy": {"kind": "t-way", "strength": 3}})


def test_every_key_of_the_format_is_documented() -> None:
    made = schema.schema()
    for definition in [made, *made["$defs"].values()]:
        for key, value in definition.get("properties", {}).items():
            assert value.get("description") or key == "kind", key


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
LINES = plans.SMALL.splitlines()


@given(st.text())
def test_any_text_is_a_plan_or_an_error_with_a_message(text: str) -> None:
    _reads_or_tells(text)


@given(st.lists(st.sampled_from(LINES), max_size=30))
def test_no_shuffling_of_a_plans_lines_makes_the_reader_fail(lines: list[str]) -> None:
    _reads_or_tells("\n".join(lines))


@given(st.integers(0, len(plans.SMALL)), st.integers(0, 5), st.text(max_size=5))
def test_no_typing_error_makes_the_reader_fail(at: int, cut: int, typed: str) -> None:
    _reads_or_tells(plans.SMALL[:at] + typed + plans.SMALL[at + cut :])


@given(
    st.sampled_from(["name", "seeds", "fixed", "axes", "groups", "collect", "check", "figure"]),
    st.recursive(
        st.sampled_from(["1", "-1", "1.5", "nan", '""', '"x"', "true", "[]", "{}", "1979-05-27"]),
        lambda inner: (
            st.lists(inner, max_size=3).map(lambda of: f"[{', '.join(of)}]")
            | st.dictionaries(st.sampled_from(["a", "kind", '"stack.cc"', "where"]), inner, max_size=3).map(
                lambda of: "{ " + ", ".join(f"{k} = {v}" for k, v in of.items()) + " }"
            )
        ),
        max_leaves=8,
    ),
)
def test_no_value_of_a_wrong_shape_makes_the_reader_fail(key: str, value: str) -> None:
    base = {"name": '"x"', "fixed": "{ }"} | {key: value}
    _reads_or_tells("\n".join(f"{k} = {v}" for k, v in base.items()))


def _reads_or_tells(text: str) -> None:
    try:
        read.read(text, FILE)
    except UserError as error:
        silent = [problem for problem in error.problems if not (problem.message and problem.place)]
    else:
        silent = []
    assert not silent
