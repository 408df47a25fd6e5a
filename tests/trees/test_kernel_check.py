"""The check of a series: order, builds that fail, the text of the reply, JUnit, exit codes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from typer.testing import CliRunner

from folders import run
from repositories import git
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.gcov.changed import Place
from tcpassay.kernel import store
from tcpassay.plan.read import Plan
from tcpassay.trees import Options, TreeComparison
from tcpassay.trees import check as checking
from tcpassay.trees.bisect import UnbuildableError
from tcpassay.trees.causes import Causes
from tcpassay.trees.check import Material, check, commits, junit, reply
from tcpassay.trees.executed import Executed, PlaceRuns
from tcpassay.trees.pairs import Shift, TreePair

Compared = Callable[..., TreeComparison]


def kernel(name: str) -> store.Kernel:
    return store.Kernel(name, "6.1.0", "a tree", "key", "now", 1.0, [], [])


def comparison(
    base: str, head: str, folder: Path, *, differs: bool, new: tuple[str, ...] = ()
) -> TreeComparison:
    one = run("c-head", 1, {"goodput": 2e6}, stack__cc="dctcp")
    pair = TreePair(one, one, differs, (), new if differs else (), ())
    shifts = [Shift("c-head", "goodput", (1e6, 1e6), (2e6, 2e6))] if differs else []
    return TreeComparison(kernel(base), kernel(head), folder, [pair], None, shifts, Causes(), [], [], 2, 0)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """The kernels that were compared, with the folders; those whose head is `bad` differ."""
    seen: list[tuple[str, str, str]] = []

    def compare(base: str, head: str, plan: Plan, folder: Path, *_: object) -> TreeComparison:
        seen.append((base, head, f"{folder.parent.name}/{folder.name}"))
        assert {case.substrate for case in plan.cases} == {f"kernel:{base}", f"kernel:{head}"}
        return comparison(base, head, folder, differs="bad" in head, new=("loss-response",))

    monkeypatch.setattr(checking, "compare_trees", compare)
    return seen


def checked(tmp_path: Path, *names: str) -> checking.Check:
    def build(state: str) -> str:
        if state == "broken":
            raise UnbuildableError("the kernel does not compile:\nnet/ipv4/tcp.c:6:1: error: expected `;`")
        return state

    states = [(name, f"title of {name}") for name in names]
    return check(states, build, Material(None), tmp_path, Options(), lambda _: None)


def test_each_change_is_compared_with_the_one_before_it(
    compared: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    told = checked(tmp_path, "base", "one", "bad", "two")
    assert compared == [("base", "one", "1/plan"), ("one", "bad", "2/plan"), ("bad", "two", "3/plan")]
    assert [step.differs for step in told.steps] == [False, True, False]
    text = reply(told)
    assert "[1/3] title of one\n  no difference in 1 pair of runs (1 case)\n" in text
    assert "[2/3] title of bad\n  1 of 1 pair of runs differ\n  new findings: loss-response (1 run)\n" in text
    assert "  goodput: 1 Mbit/s to 2 Mbit/s (stack.cc=dctcp)\n" in text
    assert text.endswith("3 changes checked, 1 with a difference or a problem.")


def test_the_reply_says_which_changed_lines_were_executed(tmp_path: Path) -> None:
    line = frozenset({("net/ipv4/tcp_input.c", 40)})
    places = [Place("net/ipv4/tcp_input.c", first, first, "head", line, line) for first in (40, 50)]
    told = Executed(
        (PlaceRuns(places[0], ("tcp_ack",), 3), PlaceRuns(places[1], ("tcp_ack",), 0)),
        (),
        ((1, 2), (1, 2)),
        4,
    )
    one = replace(comparison("base", "one", tmp_path, differs=False), executed=told)
    text = reply(checking.Check(Material(None), "base", [checking.Step("title", told={"plan": one})]))
    assert (
        "[1/1] title\n  no difference in 1 pair of runs (1 case)\n  the cases executed 2 of 4 changed lines\n"
        "    never executed: net/ipv4/tcp_input.c:50 (tcp_ack)\n"
    ) in text


def test_a_change_that_cannot_be_built_is_a_problem_and_the_next_is_compared_with_the_last_that_was(
    compared: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    told = checked(tmp_path, "base", "broken", "two")
    assert compared == [("base", "two", "2/plan")]
    assert "[1/2] title of broken\n  cannot be built:\n    the kernel does not compile:\n" in reply(told)
    assert "[2/2] title of two\n  compared with title of base\n" in reply(told)
    suites = ET.fromstring(junit(told))  # noqa: S314 - the own output
    assert [(one.get("tests"), one.get("failures")) for one in suites] == [("1", "1"), ("2", "0")]
    assert "tcp.c:6:1" in suites[0][0][0].text


def test_nothing_is_compared_if_the_state_before_the_series_cannot_be_built(
    compared: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="`title of broken` cannot be built"):
        checked(tmp_path, "broken", "one")
    assert compared == []


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the files that a Linux tree has, and five commits."""
    made = tmp_path / "linux"
    for name in ("Makefile", "Kconfig", "arch/um/Makefile", "net/ipv4/tcp.c"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("")
    git(made, "init", "-q")
    for name in ("first", "second", "third", "fourth", "fifth"):
        (made / "net/ipv4/tcp.c").write_text(name)
        git(made, "add", ".")
        git(made, "commit", "-q", "-m", name)
    return made


def test_the_commits_of_a_branch_are_those_that_base_lacks_after_their_parent(tree: Path) -> None:
    subjects = [git(tree, "log", "-1", "--format=%s", one) for one in commits(tree, "HEAD~2..HEAD")]
    assert subjects == ["third", "fourth", "fifth"]


def test_a_branch_is_compared_with_its_own_beginning_if_base_went_on(tree: Path) -> None:
    upstream = git(tree, "branch", "--show-current")
    git(tree, "checkout", "-q", "-b", "topic", "HEAD~3")
    (tree / "net/ipv4/tcp.c").write_text("topic")
    git(tree, "commit", "-q", "-a", "-m", "topic")
    listed = commits(tree, f"{upstream}..topic")
    assert [git(tree, "log", "-1", "--format=%s", one) for one in listed] == ["second", "topic"]


@pytest.mark.parametrize(
    ("series", "said"),
    [
        ("HEAD", "give two revisions"),
        ("HEAD...x", "give two revisions"),
        ("HEAD..nowhere", "the repository has no such revision"),
        ("HEAD..HEAD~1", "no commit is in HEAD and not in BASE"),
    ],
)
def test_a_wrong_series_is_named(tree: Path, series: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        commits(tree, series)


def test_the_command_builds_commits_and_ends_with_1_if_one_differs(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compared: list[tuple[str, str, str]]
) -> None:
    from tcpassay.trees import states  # noqa: PLC0415 - the class is replaced

    monkeypatch.setattr(
        states.Builder,
        "__call__",
        lambda _, state: "bad" if state == git(tree, "rev-parse", "HEAD~1") else state[:9],
    )
    xml = tmp_path / "check.xml"
    command = ["kernel", "check", "HEAD~2..HEAD", "--source", str(tree), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*command, "--junit", str(xml)], catch_exceptions=False)
    assert done.exit_code == 1, done.output
    assert [head for _, head, _ in compared] == ["bad", git(tree, "rev-parse", "HEAD")[:9]]
    assert " fourth\n  1 of 1 pair of runs differ" in done.output
    assert ET.parse(xml).getroot()[0].get("failures") == "1"  # noqa: S314 - the own output


@pytest.mark.parametrize("arguments", [[], ["a..b"], ["a..b", "--patch", "x.patch"]])
def test_contradictory_arguments_are_an_error_before_anything_is_built(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["kernel", "check", *arguments])
    assert isinstance(done.exception, UserError)
