"""Bisection over patches, kernels and commits, with artificial builders and runs."""

from pathlib import Path

import pytest

from repositories import git
from tcpassay.errors import UserError
from tcpassay.kernel import build as building
from tcpassay.kernel import store
from tcpassay.kernel.series import Patch
from tcpassay.kernel.source import Tree
from tcpassay.trees import behaviour, states
from tcpassay.trees.bisect import Line, UnbuildableError, bisect

TEN = [Patch(f"{number:04}-change", "") for number in range(1, 11)]


class Kernels:
    """States of which those from `first` on behave differently, and some cannot be built."""

    def __init__(self, line: Line, first: str | None, *, broken: tuple[str, ...] = ()) -> None:
        self.line, self.first, self.broken = list(line.states), first, broken
        self.built: list[str] = []

    def __call__(self, state: str) -> str:
        self.built.append(state)
        if state in self.broken:
            raise UnbuildableError("tcp.c:1: error")
        changed = self.first is not None and self.line.index(state) >= self.line.index(self.first)
        return "retransmits" if changed else "does not"


@pytest.mark.parametrize("first", [patch.name for patch in TEN])
def test_the_first_of_ten_patches_that_changes_behaviour_is_found_with_six_kernels(first: str) -> None:
    line = states.patches_line(TEN)
    kernels = Kernels(line, first)
    found = bisect(line, kernels)
    assert found.first == (first,)
    assert len(kernels.built) <= 6
    assert [(one.state, one.kind) for one in found.steps[:2]] == [
        ("no patch", "good"),
        ("0010-change", "bad"),
    ]


def test_a_series_that_changes_nothing_has_no_first_patch() -> None:
    line = states.patches_line(TEN)
    kernels = Kernels(line, None)
    assert bisect(line, kernels).first == ()
    assert kernels.built == ["no patch", "0010-change"]


def test_a_patch_after_which_nothing_can_be_built_is_skipped() -> None:
    line = states.patches_line(TEN)
    found = bisect(line, Kernels(line, "0008-change", broken=("0005-change", "0004-change")))
    assert found.first == ("0008-change",)
    assert [one.state for one in found.steps if one.kind == "skipped"] == ["0005-change", "0004-change"]


def test_states_that_cannot_be_built_beside_the_first_bad_one_leave_several() -> None:
    line = states.patches_line(TEN[:4])
    found = bisect(line, Kernels(line, "0003-change", broken=("0002-change", "0003-change")))
    assert set(found.first) == {"0002-change", "0003-change", "0004-change"}


def test_an_end_that_cannot_be_built_is_an_error() -> None:
    line = Line(["a", "b"])
    with pytest.raises(UserError, match="`b` cannot be built, so that nothing can be compared with it"):
        bisect(line, Kernels(line, None, broken=("b",)))


def test_patches_of_a_series_need_different_names() -> None:
    with pytest.raises(UserError, match="need different names"):
        states.patches_line([TEN[0], TEN[0]])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Ten commits, of which two are on a branch that is merged; the fault begins in the branch."""
    tree = tmp_path / "linux"
    for name in ("Kconfig", "arch/um/Makefile", "net/ipv4/tcp.c"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("")
    git(tree, "init", "-q", "-b", "main")

    def commit(subject: str) -> None:
        (tree / "net/ipv4" / f"{subject}.c").write_text(subject)
        git(tree, "add", ".")
        git(tree, "commit", "-q", "-m", subject)

    for subject in ("one", "two", "three"):
        commit(subject)
    git(tree, "checkout", "-q", "-b", "side")
    commit("fault")
    commit("beside")
    git(tree, "checkout", "-q", "main")
    for subject in ("four", "five"):
        commit(subject)
    git(tree, "merge", "-q", "--no-ff", "-m", "merge", "side")
    for subject in ("six", "seven"):
        commit(subject)
    return tree


def test_a_commit_on_a_merged_branch_is_found(repository: Path) -> None:
    def observe(commit: str) -> str:
        listed = git(repository, "ls-tree", "-r", "--name-only", commit)
        return "bad" if "fault.c" in listed else "good"

    history = states.Commits(repository, "main~6", "main")
    found = bisect(history, observe)
    assert [states.commit_text(repository, one).partition(" ")[2] for one in found.first] == ["fault"]
    assert len(found.steps) <= 6


def test_revisions_in_the_wrong_order_are_refused(repository: Path) -> None:
    with pytest.raises(UserError, match="`main` is not an ancestor of `main~3`"):
        states.Commits(repository, "main", "main~3")


def test_a_builder_hands_the_patches_up_to_a_state_to_the_build(
    monkeypatch: pytest.MonkeyPatch, repository: Path
) -> None:
    asked: list[tuple[str, list[str]]] = []

    def build(source: Tree, name: str, **options: list[Patch]) -> tuple[store.Kernel, bool]:
        asked.append((name, [patch.name for patch in options["users"]]))
        if len(options["users"]) == 3:
            raise UserError("hunk 1 does not apply")
        return store.Kernel(name, "6.1", source.words, "k", "now", 1.0, [], []), True

    monkeypatch.setattr(building, "build", build)
    line, tree = states.patches_line(TEN), Tree(repository)
    builder = states.Builder(lambda state: (tree, TEN[: list(line.states).index(state)]), 1, lambda _: None)
    assert builder("no patch") == "bisect"
    assert builder("0002-change") == "bisect"
    with pytest.raises(UnbuildableError, match="hunk 1 does not apply"):
        builder("0003-change")
    assert asked[:2] == [("bisect", []), ("bisect", ["0001-change", "0002-change"])]


PLAN = """
name = "few"
[fixed]
"app.duration" = "20ms"
"link.rate" = "10Mbit"
[axes]
"stack.cc" = ["reno", "cubic"]
"""


def test_the_behaviour_of_a_plan_is_a_line_for_each_run_and_equal_when_it_is_repeated(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    read = behaviour.of_plan(plan)
    # The model takes the place of the kernels here.
    shown = [
        behaviour.Behaviour(lambda _: read("model"), by, 1)("k") for by in ("packets", "packets", "outcome")
    ]
    assert shown[0] == shown[1]
    assert [line.partition(", packets ")[0] for line in shown[0].splitlines()] == [
        "stack.cc=reno, seed 1: done",
        "stack.cc=cubic, seed 1: done",
    ]
    assert shown[2] == "stack.cc=reno, seed 1: done\nstack.cc=cubic, seed 1: done"
