"""Building kernels, on a tree that has Linux's files and targets but compiles two lines."""

import errno
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from small_tree import MAKEFILE, NEW, ONE, PATCH, UTIL, build, write
from typer.testing import CliRunner

from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.kernel import boots, kbuild, series, shadow, source, store, variant
from tcpassay.kernel import build as building
from tcpassay.kernel.source import Tree


def test_a_tree_is_built_with_the_patches_and_stays_as_it_was(linux: Path) -> None:
    kernel, new, steps = build(linux)
    assert new
    assert steps == ["arch/um/os-Linux/util.o", "linux", "net/ipv4/tcp.o"]
    assert kernel.release == "6.1.7-test"
    assert kernel.patches == ["first"]
    assert b"added" in kernel.image.read_bytes()
    assert (linux / "arch/um/os-Linux/util.c").read_text() == UTIL
    assert not (linux / "include").exists()


def test_the_same_tree_again_is_not_built_again(linux: Path) -> None:
    first, _, _ = build(linux)
    again, new, steps = build(linux)
    assert not new
    assert steps == []
    assert again == first


def test_a_changed_file_is_compiled_again_alone(linux: Path) -> None:
    before, _, _ = build(linux)
    (linux / "net/ipv4/tcp.c").write_text("int tcp2;\n")
    after, new, steps = build(linux)
    assert new
    assert steps == ["linux", "net/ipv4/tcp.o"]
    assert after.key != before.key


def test_a_changed_file_that_a_patch_touches_is_patched_again(linux: Path) -> None:
    build(linux)
    (linux / "arch/um/os-Linux/util.c").write_text(UTIL.replace("after", "behind"))
    kernel, _, steps = build(linux)
    assert steps == ["arch/um/os-Linux/util.o", "linux"]
    assert b"added" in kernel.image.read_bytes()
    assert b"behind" in kernel.image.read_bytes()


def test_a_file_that_only_git_ignores_is_not_copied(linux: Path) -> None:
    subprocess.run(["git", "init", "-q", str(linux)], check=True)  # noqa: S607
    (linux / ".gitignore").write_text("*.o\n")
    (linux / "net/ipv4/old.o").write_text("built in the tree\n")
    build(linux)
    copied = store.tree(Tree(linux).identity) / "source"
    assert (copied / "net/ipv4/tcp.c").exists()
    assert not (copied / "net/ipv4/old.o").exists()


def test_a_patch_that_does_not_apply_is_named(linux: Path) -> None:
    (linux / "arch/um/os-Linux/util.c").write_text("int other;\n")
    with pytest.raises(
        UserError,
        match=r"cannot run in virtual time: patch `first` .* `arch/um/os-Linux/util\.c`, hunk 1 of 1",
    ):
        build(linux)
    assert store.kernels() == []


def test_a_patch_that_is_optional_is_left_out_and_that_is_recorded(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "LOST", {"first": "time"})
    (linux / "arch/um/os-Linux/util.c").write_text("int other;\n")
    kernel, _, _ = build(linux)
    assert kernel.patches == []


FORM = PATCH.replace("/util.c", "/moved.c")


def test_of_the_forms_of_a_patch_the_first_that_applies_is_used(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forms = [series.Patch("first", PATCH), series.Patch("first (9.9)", FORM)]
    monkeypatch.setattr(shadow, "patches", lambda: forms)
    assert build(linux)[0].patches == ["first"]
    (linux / "arch/um/os-Linux/util.c").write_text("int other;\n")
    (linux / "arch/um/os-Linux/moved.c").write_text(UTIL)
    kernel, _, _ = build(linux)
    assert kernel.patches == ["first (9.9)"]
    patched = store.tree(Tree(linux).identity) / "source/arch/um/os-Linux/moved.c"
    assert "added" in patched.read_text()
    assert shadow.omitted(kernel.patches, kernel.contained) == {}
    (linux / "arch/um/os-Linux/moved.c").write_text("int other;\n")
    with pytest.raises(UserError, match=r"cannot run in virtual time: patch `first \(9\.9\)`"):
        build(linux)


def test_a_form_for_a_later_series_does_not_rebuild_a_kernel_that_does_not_need_it() -> None:
    first, form = series.Patch("first", PATCH), series.Patch("first (9.9)", FORM)
    assert shadow.relevant([first, form], applied=["first"]) == [first]
    assert shadow.relevant([first, form], applied=["first (9.9)"]) == [first, form]
    assert shadow.relevant([first, form], applied=[]) == [first, form]


def test_a_source_that_does_what_a_patch_does_needs_no_patch(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "CONTAINED", {"first": ("arch/um/os-Linux/util.c", "int added_upstream;")})
    (linux / "arch/um/os-Linux/util.c").write_text("int added_upstream;\n")
    kernel, _, _ = build(linux)
    assert (kernel.patches, kernel.contained) == ([], ["first"])
    assert shadow.omitted(kernel.patches, kernel.contained) == {}


def test_a_source_without_the_fault_needs_no_patch_and_one_with_it_is_refused(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "FAULTS", {"first": ("arch/um/os-Linux/util.c", "int fault;")})
    (linux / "arch/um/os-Linux/util.c").write_text("int other;\n")
    assert build(linux)[0].contained == ["first"]
    (linux / "arch/um/os-Linux/util.c").write_text("int fault;\n")
    with pytest.raises(UserError, match="patch `first` does not apply"):
        build(linux)


def test_debians_version_decides_which_forms_are_read() -> None:
    of_6_1, of_6_12 = (shadow.until(version, shadow.patches()) for version in ("6.1", "6.12"))
    assert not any("(" in patch.name for patch in of_6_1)
    assert {patch.name for patch in of_6_12} - {patch.name for patch in of_6_1} == {
        "0007-um-memory-is-mapped-at-once (6.12)",
        "0010-um-consecutive-pages-of-a-folio (6.12)",
    }


@pytest.mark.parametrize("ends", ["no-tools", "no-source", "does-not-compile", "does-not-boot"])
def test_only_missing_programs_and_sources_let_the_tests_of_a_kernel_be_skipped(
    linux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    def refuses(*_: object) -> None:
        raise UserError("the kernel was built, but does not boot")

    def cannot_be_fetched(*_: object) -> None:
        raise source.UnavailableError("`linux-source-6.1` cannot be fetched: no network")

    command = ["kernel", "build", "--source", str(linux), "--if-possible"]
    expected = 3
    if ends == "no-tools":
        monkeypatch.setattr(building, "missing_tools", lambda: ["flex"])
    elif ends == "no-source":
        monkeypatch.setattr(source.Debian, "_fetch", cannot_be_fetched)
        # Another version than any that is installed in /usr/src.
        command = ["kernel", "build", "--debian", "1.1", "--if-possible"]
    elif ends == "does-not-compile":
        (linux / "net/ipv4/tcp.c").write_text("int tcp\n")
        expected = 2
    else:
        monkeypatch.setattr(boots, "require", refuses)
        expected = 2
    program = tmp_path / "tcpassay"
    ran = CliRunner().invoke(app, command)
    code = 2 if isinstance(ran.exception, UserError) else ran.exit_code
    assert code == expected
    if ends == "no-source":
        assert not (store.cache() / "kernels").exists()
        assert not (store.cache() / "trees").exists()
    # The script that CI calls passes the code on, or says that tests will be skipped.
    program.write_text(f"#!/bin/sh\nexit {code}\n")
    program.chmod(0o755)
    script = Path(__file__).parents[2] / "tools" / "kernel.sh"
    said = subprocess.run(["sh", str(script), str(program), "if-possible"], capture_output=True, check=False)  # noqa: S607
    assert said.returncode == (0 if expected == 3 else expected)
    assert (b"will be skipped" in said.stderr) == (expected == 3)


def test_a_build_that_fails_shows_the_compilers_message_and_leaves_no_kernel(linux: Path) -> None:
    build(linux)
    (linux / "net/ipv4/tcp.c").write_text("int tcp = nobody;\n")
    with pytest.raises(UserError) as failed:
        build(linux)
    assert "net/ipv4/tcp.c:1:11: error: 'nobody' undeclared" in str(failed.value)
    assert store.kernels() == []


def test_what_a_version_does_not_have_is_recorded_and_what_is_needed_refuses(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = 'grep -v -e CONFIG_NET_SCH_CAKE -e "$(WITHOUT)" $(KCONFIG_ALLCONFIG) > $(O)/.config'
    (linux / "Makefile").write_text(MAKEFILE.replace("cp $(KCONFIG_ALLCONFIG) $(O)/.config", lacking))
    monkeypatch.setenv("WITHOUT", "no such symbol")
    kernel, _, _ = build(linux)
    assert kernel.absent == ["NET_SCH_CAKE"]
    monkeypatch.setenv("WITHOUT", "CONFIG_VETH")
    with pytest.raises(UserError, match="this kernel cannot be used: it has no VETH"):
        build(linux, "other")


def test_a_folder_without_its_description_is_no_kernel_until_it_is_built_again(linux: Path) -> None:
    kernel, _, _ = build(linux)
    (kernel.folder / "kernel.json").unlink()
    assert store.kernels() == []
    with pytest.raises(UserError, match="there is no kernel `mine`; built are: none"):
        store.find("mine")
    _, new, steps = build(linux)
    assert new
    assert steps == ["linux"]


def test_two_builds_of_one_kernel_at_once_are_refused(linux: Path) -> None:
    place = store.folder("mine")
    place.mkdir(parents=True)
    with (
        building.alone(place),
        pytest.raises(UserError, match="another process is building the kernel `mine`"),
    ):
        build(linux)


@pytest.mark.parametrize("name", ["", "../x", ".hidden", "a/b", "x" * 65])
def test_a_name_that_is_none_is_refused_before_anything_is_removed(linux: Path, name: str) -> None:
    assert linux.is_dir()
    with pytest.raises(UserError, match="a kernel's name has at most 64"):
        store.remove(name)


def test_a_removed_kernel_leaves_nothing(linux: Path) -> None:
    kernel, _, _ = build(linux)
    store.remove("mine")
    assert not kernel.folder.exists()
    with pytest.raises(UserError, match="there is no kernel `mine`"):
        store.remove("mine")


def test_every_patch_of_the_package_says_what_it_is_for_and_touches_something() -> None:
    names = [patch.name for patch in shadow.patches()]
    assert names == [
        "0001-um-tick-of-a-millisecond",
        "0002-um-seeded-randomness",
        "0003-um-virtual-clock-of-a-nanosecond",
        "0004-tcp-dctcp-selectable-receiver",
        "0005-um-faults-of-sixteen-pages",
        "0006-um-no-system-calls-at-a-switch",
        "0007-um-memory-is-mapped-at-once",
        "0007-um-memory-is-mapped-at-once (6.12)",
        "0007-um-memory-is-mapped-at-once (7.3)",
        "0008-net-sched-tbf-as-a-link",
        "0009-um-registers-of-any-host",
        "0010-um-consecutive-pages-of-a-folio (6.12)",
    ]
    for patch in [*shadow.patches(), *variant.COVERAGE.patches, *variant.DEBUG.patches]:
        assert len(patch.text.partition("\n---\n")[0]) > 200
        assert patch.touches


def test_the_configuration_has_what_is_needed_and_no_symbol_twice() -> None:
    symbols = [
        line.partition("=")[0] for line in kbuild.CONFIG.read_text().splitlines() if line[:7] == "CONFIG_"
    ]
    assert len(symbols) == len(set(symbols))
    assert {f"CONFIG_{name}" for name in kbuild.NEEDED} <= set(symbols)


def test_a_description_that_is_damaged_is_no_kernel(linux: Path) -> None:
    kernel, _, _ = build(linux)
    (kernel.folder / "kernel.json").write_text(json.dumps({"name": "mine"}))
    assert store.read("mine") is None
    kernel.image.unlink()
    assert store.kernels() == []


def test_kernels_with_and_without_a_patch_compile_only_what_differs(linux: Path, tmp_path: Path) -> None:
    base, _, _ = build(linux, "base")
    head, new, steps = build(linux, "head", write(tmp_path, "one.patch", ONE))
    assert new
    assert steps == ["linux", "net/ipv4/tcp.o"]
    assert head.series == ["one"]
    assert head.key != base.key
    assert b"one" in head.image.read_bytes()
    assert b"one" not in base.image.read_bytes()
    assert (linux / "net/ipv4/tcp.c").read_text() == "int tcp;\n"
    _, new, steps = build(linux, "again")
    assert new
    assert steps == ["linux", "net/ipv4/tcp.o"]


def test_kernels_of_one_tree_have_the_same_build_version(linux: Path, tmp_path: Path) -> None:
    version = 'cat $^ > $(O)/linux; echo "version $(KBUILD_BUILD_VERSION)" >> $(O)/linux'
    (linux / "Makefile").write_text(MAKEFILE.replace("cat $^ > $(O)/linux", version))
    base, _, _ = build(linux, "base")
    head, _, _ = build(linux, "head", write(tmp_path, "one.patch", ONE))
    assert base.image.read_bytes().endswith(b"version 1\n")
    assert head.image.read_bytes().endswith(b"version 1\n")


def test_a_patch_that_does_not_apply_leaves_the_kernel_that_was_there(linux: Path, tmp_path: Path) -> None:
    before, _, _ = build(linux, "head", write(tmp_path, "one.patch", ONE))
    with pytest.raises(UserError, match=r"`net/ipv4/tcp\.c`, hunk 1 of 1"):
        build(linux, "head", write(tmp_path, "bad.patch", ONE.replace("tcp;", "udp;")))
    assert store.read("head") == before
    _, new, steps = build(linux, "head", tmp_path / "one.patch")
    assert not new
    assert steps == []


def test_a_file_that_a_patch_creates_is_gone_without_the_patch(linux: Path, tmp_path: Path) -> None:
    made = store.tree(Tree(linux).identity) / "source/net/ipv4/new.h"
    build(linux, "head", write(tmp_path, "new.patch", NEW))
    assert made.read_text() == "int new;\n"
    build(linux, "head", tmp_path / "new.patch", write(tmp_path, "one.patch", ONE))
    assert made.read_text() == "int new;\n"
    build(linux, "base")
    assert not made.exists()


def test_a_patch_of_ours_that_the_users_patch_breaks_is_named(linux: Path, tmp_path: Path) -> None:
    own = "--- a/arch/um/os-Linux/util.c\n+++ b/arch/um/os-Linux/util.c\n@@ -1,3 +1,1 @@\n+int other;\n"
    own += "".join(f"-{line}\n" for line in UTIL.splitlines())
    with pytest.raises(UserError, match="this kernel cannot run in virtual time: patch `first`"):
        build(linux, "head", write(tmp_path, "own.patch", own))


def test_a_full_disk_removes_the_tree_and_the_next_build_succeeds(linux: Path) -> None:
    build(linux)
    (linux / "net/ipv4/tcp.c").write_text("int tcp2;\n")
    full = 'echo "as: net/ipv4/tcp.o: No space left on device"; exit 1'
    (linux / "Makefile").write_text(MAKEFILE.replace("linux: $(PARTS", f"linux:\n\t@{full}\nother: $(PARTS"))
    with pytest.raises(UserError, match="the disk became full while kernel `mine` was built"):
        build(linux)
    assert store.kernels() == []
    assert not store.tree(Tree(linux).identity).exists()
    (linux / "Makefile").write_text(MAKEFILE)
    _, new, _ = build(linux)
    assert new


def test_a_full_disk_while_the_image_is_stored_leaves_no_kernel(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(building.shutil, "copy2", full)
    with pytest.raises(UserError, match="the disk became full"):
        build(linux)
    assert store.kernels() == []


def test_the_tree_of_a_source_is_removed_with_the_last_of_its_kernels(linux: Path, tmp_path: Path) -> None:
    tree = store.tree(Tree(linux).identity)
    build(linux, "base")
    build(linux, "head", write(tmp_path, "one.patch", ONE))
    store.remove("base")
    assert tree.is_dir()
    store.remove("head")
    assert not tree.exists()


def test_a_tree_that_cannot_be_configured_is_reported_with_its_first_error_and_the_log(linux: Path) -> None:
    lines = ["Kconfig:6: warning: no prompt", "Kconfig:7: syntax error", *["Kconfig:9: invalid"] * 20]
    (linux / "said").write_text("\n".join(lines))
    (linux / "Makefile").write_text("allnoconfig:\n\t@cat said >&2; exit 1\n")
    with pytest.raises(
        UserError, match=r"cannot be configured; the full output is in .*:\n {4}Kconfig:7: syntax error\n"
    ):
        build(linux)
    assert (store.folder("mine") / "build.log").read_text().count("Kconfig:9: invalid") == 20
    assert store.kernels() == []


def test_a_disk_that_is_full_while_the_source_is_copied_is_reported_and_the_next_build_succeeds(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copy

    def full(from_: Path, into: Path, **options: bool) -> Path:
        if into.name == "tcp.c":
            raise OSError(errno.ENOSPC, "No space left on device", str(into))
        return copy(from_, into, **options)

    with monkeypatch.context() as patched:
        patched.setattr(source.shutil, "copy", full)
        with pytest.raises(UserError, match="the disk became full while kernel `mine` was built"):
            build(linux)
    assert store.kernels() == []
    assert not store.tree(Tree(linux).identity).exists()
    assert build(linux)[1]
