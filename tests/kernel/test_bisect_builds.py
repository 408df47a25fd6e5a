"""Bisection over ten patches with real builds, on a tree that has Linux's files and targets but compiles two lines."""

from pathlib import Path

import pytest
from small_tree import write
from typer.testing import CliRunner

from repositories import git
from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.kernel import boots, series, store
from tcpassay.kernel.series import Patch
from tcpassay.kernel.source import Tree
from tcpassay.trees.behaviour import Behaviour
from tcpassay.trees.bisect import Bisection, bisect
from tcpassay.trees.states import Builder, patches_line

COUNT = 10


def series_of_ten(folder: Path, fault: int, broken: int = 0) -> list[Patch]:
    """Patches of one file, each with a line more: one with a fault, one that does not compile until the next."""
    folder.mkdir()
    lines = ["int tcp;"]
    for number in range(1, COUNT + 1):
        name = "fault" if number == fault else f"one{number}"
        old = list(lines)
        if number == broken + 1 and broken:
            lines[-1] = lines[-1].rstrip("?")
        lines.append(f"int {name};" + ("?" if number == broken else ""))
        body = [f"-{line}" for line in old] + [f"+{line}" for line in lines]
        head = f"--- a/net/ipv4/tcp.c\n+++ b/net/ipv4/tcp.c\n@@ -1,{len(old)} +1,{len(lines)} @@\n"
        (folder / f"{number:04}-change.patch").write_text(head + "\n".join(body) + "\n")
    return series.read([folder])


def found_in(tree: Path, patches: list[Patch]) -> Bisection:
    """The bisection; a kernel behaves badly if its image has the fault."""
    line = patches_line(patches)
    builder = Builder(
        lambda state: (Tree(tree), patches[: list(line.states).index(state)]), 1, lambda _: None
    )

    def observe(state: str) -> str:
        image = store.find(builder(state)).image.read_bytes()
        return "bad" if b"fault" in image else "good"

    return bisect(line, observe)


def test_the_one_of_ten_patches_that_has_the_fault_is_found_with_six_builds(
    linux: Path,
    tmp_path: Path,
) -> None:
    found = found_in(linux, series_of_ten(tmp_path / "series", 6))
    assert found.first == ("0006-change",)
    assert [one.kind for one in found.steps] == ["good", "bad", "good", "bad", "bad"]
    # The tree of the user has no patch.
    assert (linux / "net/ipv4/tcp.c").read_text() == "int tcp;\n"


def test_a_patch_that_does_not_compile_is_skipped_with_the_words_of_the_compiler(
    linux: Path,
    tmp_path: Path,
) -> None:
    found = found_in(linux, series_of_ten(tmp_path / "series", 7, broken=5))
    assert found.first == ("0007-change",)
    (skipped,) = [one for one in found.steps if one.kind == "skipped"]
    assert skipped.state == "0005-change"
    assert "the kernel does not compile" in skipped.shown
    assert "net/ipv4/tcp.c:6" in skipped.shown


def test_a_kernel_that_panics_at_boot_is_skipped(
    linux: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def panics(image: Path, _: Path, _modules: list[str]) -> None:
        if b"one5" in image.read_bytes() and b"fault" not in image.read_bytes():
            raise UserError("the kernel was built, but does not boot (exit code 6)")

    monkeypatch.setattr(boots, "require", panics)
    found = found_in(linux, series_of_ten(tmp_path / "series", 6))
    assert found.first == ("0005-change", "0006-change")
    assert [one.shown for one in found.steps if one.kind == "skipped"] == [
        "the kernel was built, but does not boot (exit code 6)"
    ]


def test_a_patch_of_the_series_that_does_not_apply_is_named_with_its_hunk_and_line(
    linux: Path,
    tmp_path: Path,
) -> None:
    patches = series_of_ten(tmp_path / "series", 6)
    last = tmp_path / "series/0010-change.patch"
    last.write_text(last.read_text().replace("-int fault;", "-int nobody;"))
    with pytest.raises(UserError, match=r"`0010-change` cannot be built.*\n.*`net/ipv4/tcp\.c`, hunk 1 of 1"):
        found_in(linux, [*patches[:9], *series.read([last])])


def test_the_command_finds_a_commit_by_the_kernels_that_it_builds(
    linux: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    git(linux, "init", "-q")
    for name in ("first", "second", "fault", "fourth", "fifth"):
        with (linux / "net/ipv4/tcp.c").open("a") as file:
            file.write(f"int {name};\n")
        git(linux, "add", ".")
        git(linux, "commit", "-q", "-m", name)
    plan = write(tmp_path, "plan.toml", 'name = "x"\n')
    monkeypatch.setattr(
        Behaviour, "__call__", lambda _, kernel: str(b"fault" in store.find(kernel).image.read_bytes())
    )
    command = ["kernel", "bisect", "HEAD~3", "HEAD", "--source", str(linux), "--case", str(plan)]
    done = CliRunner().invoke(app, [*command, "--jobs", "1"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[-3].endswith(" fault")
    assert done.output.splitlines()[-2:] == ["  before: False", "  after:  True"]
