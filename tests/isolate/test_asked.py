"""Isolations that start from a failed check, or from a metric of two cases."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.isolate import Options, Question, isolate
from tcpassay.isolate.triples import differing, triples_of
from tcpassay.plan import read
from tcpassay.results import load
from tcpassay.run.execute import Local, execute
from tcpassay.run.session import Beginning, Session

# With jitter HyStart of Linux ends slow start early: the window grows slowly on a path of 80 ms (see the checks).
PLAN = """
name = "hystart"
seeds = [2]
oracles = false
metrics = ["goodput"]
[fixed]
"stack.profile" = "linux"
"stack.cc" = "cubic"
"link.rate" = "100Mbit"
"link.delay" = "40ms"
"queue.limit" = "2MB"
"app.flow_size" = "20MB"
"app.duration" = "30s"
[axes]
"stack.hystart" = ["off", "linux"]
"link.jitter" = ["0s", "20ms"]
[[check]]
metric = "goodput"
op = ">="
value = 40000000
why = "most of the path is used"
[[check]]
metric = "goodput"
op = "<"
value = 1000000000
why = "no more than the path has"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("asked")
    with Session.begin(
        read.read(PLAN, made / "plan.toml"), made / "out", Beginning(), replace_=True
    ) as session:
        execute(session, Local(1))
    return made / "out"


def case(folder: Path, hystart: str, jitter: str) -> str:
    rows = [
        run["case"]
        for run in load(folder).runs
        if run["varied"] == {"stack.hystart": hystart, "link.jitter": jitter}
    ]
    assert len(rows) == 1
    return str(rows[0])


def test_a_default_that_means_the_same_beside_a_fixed_profile_is_no_reset(folder: Path) -> None:
    (cause,) = isolate(folder, "check", Options()).causes
    assert cause.case == case(folder, "linux", "20ms")
    assert cause.effect.title == "goodput below 40 Mbit/s"
    assert {(one.path, one.value) for one in cause.triples} == {
        ("stack.hystart", "linux"),
        ("link.jitter", "20ms"),
    }
    # The default of `stack.hystart` is `profile`, which is `linux` here.
    assert {(row.triple.path, row.value) for row in cause.proof} == {
        ("stack.hystart", "off"),
        ("link.jitter", "0s"),
    }
    assert cause.proven


def test_of_two_cases_only_settings_that_differ_are_a_cause_and_are_reset_to_the_other_value(
    folder: Path,
) -> None:
    slow, fast = case(folder, "linux", "20ms"), case(folder, "off", "20ms")
    (cause,) = isolate(folder, Question("goodput", slow[:4], fast[:4]), Options()).causes
    assert [(one.path, one.value, cause.reset_value(one)) for one in cause.triples] == [
        ("stack.hystart", "linux", "off")
    ]
    assert cause.proven
    assert {one.path for one in cause.run} >= {"link.jitter", "stack.cc", "stack.profile"}
    assert cause.smallest is not None
    assert cause.smallest.triples["link.jitter"] == "20ms"


def test_the_faster_case_is_explained_in_the_other_direction(folder: Path) -> None:
    slow, fast = case(folder, "linux", "20ms"), case(folder, "off", "0s")
    (cause,) = isolate(folder, Question("goodput", fast, slow, tolerance=0.1), Options()).causes
    # 71.86 and 15.83 Mbit/s: a tenth of the difference below the faster one.
    assert cause.effect.title == "goodput at least 66.26 Mbit/s"
    # Either setting of the faster case is enough; one of them is found, and without it the run is slow.
    assert len(cause.triples) == 1
    assert cause.proven


@pytest.mark.parametrize(
    ("finding", "message"),
    [
        ("check-2", "`check-2`: 1 failed check in these results"),
        (Question("goodputs", "0", "0"), "there is no such metric; did you mean `goodput`?"),
        (Question("goodput", "zz", "0"), "`zz` is to be the id of one case or its beginning"),
        (Question("goodput", "", "0"), "`` is to be the id of one case or its beginning"),
    ],
)
def test_what_is_not_there_is_refused(folder: Path, finding: str | Question, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        isolate(folder, finding, Options())


def test_two_cases_with_the_same_value_are_refused(folder: Path) -> None:
    one = case(folder, "off", "0s")
    with pytest.raises(UserError, match=f"the `goodput` of the cases {one} and {one} is the same"):
        isolate(folder, Question("goodput", one, one), Options())


def test_the_options_for_two_cases_are_given_together(folder: Path) -> None:
    said = CliRunner().invoke(app, ["isolate", str(folder), "--metric", "goodput", "--case", "a"])
    assert isinstance(said.exception, UserError)
    assert str(said.exception) == "`--metric`, `--case` and `--against` are given together, without a finding"


def test_where_a_case_sets_a_path_with_address_the_other_has_its_plain_value_or_the_default() -> None:
    mine = triples_of({"sender/stack.cc": "bbr", "stack.cc": "cubic", "link.delay": "10ms"})
    other = triples_of({"stack.cc": "dctcp", "link.delay": "0.01s"})
    here, there = differing(mine, other)
    assert {str(one) for one in here} == {"sender/stack.cc=bbr", "stack.cc=cubic"}
    assert {str(one) for one in there} == {"sender/stack.cc=dctcp", "stack.cc=dctcp"}
