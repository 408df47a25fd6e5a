"""`tcpassay verify` on a plan with a known fault: needless retransmissions after bursts in reverse order."""

import subprocess
import sys
from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.fixes import Fix
from tcpassay.fixes.session import acting
from tcpassay.fixes.variant import variant
from tcpassay.plan.read import Plan, read
from tcpassay.run.execute import Local, execute
from tcpassay.run.session import Beginning, Session

PLAN = """\
name = "small"
doc = "Bursts in reverse order."
seeds = [3]

[fixed]
"app.duration" = "300ms"
"link.rate" = "100Mbit"
"link.delay" = "5ms"
"stack.mtu" = "9000B"

[axes]
"stack.cc" = ["reno", "cubic"]

[groups.path]
straight = { "stack.sack" = "off" }
reversed = { "link.reorder" = "reverse-burst:5" }
"""


def plan(text: str = PLAN) -> Plan:
    return read(text, Path("small.toml"))


def test_a_fix_of_a_group_changes_only_the_cases_with_the_setting() -> None:
    made = variant(plan(), Fix.of("link.reorder", "off"), None)
    assert sorted(case.label for case in made.before.values()) == [
        "cc=cubic, path=reversed",
        "cc=reno, path=reversed",
    ]
    assert len(made.ids) == 2


def test_a_fix_that_the_plan_does_not_set_changes_every_case() -> None:
    made = variant(plan(), Fix.of("stack.timestamps", "off"), None)
    assert len(made.before) == 4
    assert all(case.triples["stack.timestamps"] == "off" for case in made.plan.cases)


def test_a_fix_may_be_another_substrate() -> None:
    made = variant(
        plan(
            PLAN.replace("[axes]", '"stack.profile" = "linux"\n\n[axes]').replace(
                "reverse-burst:5", "reverse-burst:4"
            )
        ),
        Fix.of("substrate", "kernel:patched"),
        None,
    )
    assert {case.substrate for case in made.plan.cases} == {"kernel:patched"}
    assert len(made.before) == 4


@pytest.mark.parametrize(
    ("fix", "message"),
    [
        (Fix("stack.cc", "cubic"), "`--fix stack.cc=cubic`: the plan varies it"),
        (Fix("link.rate", "100Mbit"), "`--fix link.rate=100Mbit`: it changes none of the cases that run"),
        (Fix("link.reorder", "reverse-burst:5"), "`--fix link.reorder=reverse-burst:5`: it changes none"),
        (
            Fix("stack.profil", "linux"),
            "`--fix stack.profil=linux`: the plan is not valid with it: `stack.profil`",
        ),
        (
            Fix("stack.profile", "lunix"),
            "`--fix stack.profile=lunix`: the plan is not valid with it: `stack.profile`",
        ),
    ],
)
def test_a_fix_without_a_meaning_is_refused_before_any_run(fix: Fix, message: str) -> None:
    with pytest.raises(UserError, match=message):
        variant(plan(), fix, None)


RECEIVER = """\
name = "receiver"

[fixed]
"app.duration" = "50ms"
"link.delay" = "1ms"
"stack.cc" = "dctcp"
"stack.ecn" = "dctcp"
"stack.dctcp_receiver" = "clear-timer"
"queue.ecn_threshold" = "30KB"

[axes]
"queue.ecn_mark" = ["off", "data"]
"""


def test_a_receiver_of_marks_is_not_tried_again_in_cases_in_which_nothing_was_marked(tmp_path: Path) -> None:
    made = plan(RECEIVER)
    with Session.begin(made, tmp_path / "out", Beginning(), replace_=False) as session:
        runs = execute(session, Local(1)).runs
    marks = {str(run.case.triples["queue.ecn_mark"]): run.metrics["marks"] or 0 for run in runs}
    assert marks["off"] == 0 < marks["data"]
    fixed = variant(made, Fix.of("stack.dctcp_receiver", "immediate"), None)
    assert len(fixed.before) == 2
    assert [case.triples["queue.ecn_mark"] for case in acting(fixed, runs).before.values()] == ["data"]
    # Another setting may have an effect without a mark.
    other = variant(made, Fix.of("link.delay", "2ms"), None)
    assert acting(other, runs) == other


def verify(folder: Path, *fixes: str) -> subprocess.CompletedProcess[str]:
    options = [part for fix in fixes for part in ("--fix", fix)]
    command = [
        sys.executable,
        "-m",
        "tcpassay",
        "verify",
        "plan.toml",
        *options,
        "--out",
        "out",
        "--page",
        "page.md",
    ]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("verify")
    (place / "plan.toml").write_text(PLAN, encoding="utf-8")
    return place


def test_a_fix_that_makes_two_cases_equal_is_refused() -> None:
    text = PLAN.replace('{ "stack.sack" = "off" }', "{}")
    message = "`--fix link.reorder=off`: the plan is not valid with it: `axes`: .* are the same case"
    with pytest.raises(UserError, match=message):
        variant(plan(text), Fix("link.reorder", "off"), None)


def test_a_fix_that_removes_what_is_found_and_one_that_does_not(folder: Path) -> None:
    done = verify(folder, "link.reorder=off", "link.delay=6ms")
    assert done.returncode == 1, done.stderr
    found, isolated, explained, gone, remains, _ = done.stdout.splitlines()
    assert found == "Found on model: 2 runs of 4 have findings"
    assert isolated.startswith("Isolated: 1 cause (1 setting), 1 proven, in ")
    assert explained == "Explained: 1 of 1 cause"
    assert gone == "Gone with link.reorder=off: 0 of the 2 runs that it changes have findings"
    assert remains == "Not gone with link.delay=6ms: 2 of the 4 runs that it changes have findings"
    page = (folder / "page.md").read_text(encoding="utf-8")
    assert page.startswith("# small: what is found, and what remains\n")
    assert "| `link.reorder` | reverse-burst:5 | off | none |" in page


def test_the_same_command_uses_the_runs_that_ended_and_says_that_all_is_gone(folder: Path) -> None:
    done = verify(folder, "link.reorder=off")
    assert done.returncode == 0, done.stderr
    assert (
        (folder / "page.md")
        .read_text(encoding="utf-8")
        .startswith("# small: found, isolated, explained, gone\n")
    )
