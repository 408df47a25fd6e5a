"""Building kernels, on a tree that has Linux's files and targets but compiles one line."""

import json
import subprocess
from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.kernel import build as building
from tcpassay.kernel import shadow, source, store
from tcpassay.kernel.source import Tree

# `linux` is made of the sources that a patch touches and of one more; what is compiled is printed as Linux does.
MAKEFILE = """
SRC := $(CURDIR)
PARTS := arch/um/os-Linux/util net/ipv4/tcp
allnoconfig:
	@mkdir -p $(O)/include/config; cp $(KCONFIG_ALLCONFIG) $(O)/.config
	@echo 6.1.7-test > $(O)/include/config/kernel.release
$(O)/%.o: %.c
	@mkdir -p $(dir $@); echo "  CC      $*.o"; gcc -c -x c $< -o $@
linux: $(PARTS:%=$(O)/%.o)
	@echo "  LD      linux"; cat $^ > $(O)/linux
"""
UTIL = "int before;\n/* here */\nint after;\n"
PATCH = """first: a variable

---
--- a/arch/um/os-Linux/util.c
+++ b/arch/um/os-Linux/util.c
@@ -1,3 +1,4 @@
 int before;
 /* here */
+int added;
 int after;
"""


def no_one_listens(_: str) -> None:
    """For `say`."""


@pytest.fixture
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree as a user has it, with a cache and one patch of ours."""
    tree = tmp_path / "linux"
    for name, text in {
        "Makefile": MAKEFILE,
        "Kconfig": "",
        "arch/um/Makefile": "",
        "arch/um/os-Linux/util.c": UTIL,
        "net/ipv4/tcp.c": "int tcp;\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    monkeypatch.setenv("TCPASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shadow, "patches", lambda: [shadow.Patch("first", PATCH)])
    monkeypatch.setattr(building, "missing_tools", list)
    return tree


def build(tree: Path, name: str = "mine") -> tuple[store.Kernel, bool, list[str]]:
    """The kernel, whether it was built, and what was compiled."""
    steps: list[str] = []
    kernel, new = building.build(Tree(tree), name, jobs=2, say=no_one_listens, stepped=steps.append)
    return kernel, new, sorted(steps)


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
    copied = store.folder("mine") / "source"
    assert (copied / "net/ipv4/tcp.c").exists()
    assert not (copied / "net/ipv4/old.o").exists()


def test_a_patch_that_does_not_apply_is_named(linux: Path) -> None:
    (linux / "arch/um/os-Linux/util.c").write_text("int other;\n")
    with pytest.raises(UserError, match="patch `first` does not apply to this kernel: "):
        build(linux)
    assert store.kernels() == []


def test_a_patch_that_is_optional_is_left_out_and_that_is_recorded(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "OPTIONAL", {"first"})
    (linux / "arch/um/os-Linux/util.c").write_text("int other;\n")
    kernel, _, _ = build(linux)
    assert kernel.patches == []


def test_a_build_that_fails_shows_the_compilers_words_and_leaves_no_kernel(linux: Path) -> None:
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
    with pytest.raises(UserError, match="this kernel cannot serve: VETH cannot be switched on in it"):
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
        "0008-net-sched-tbf-as-a-link",
    ]
    for patch in shadow.patches():
        assert len(patch.text.partition("\n---\n")[0]) > 200
        assert patch.touches


def test_the_configuration_has_what_is_needed_and_no_symbol_twice() -> None:
    symbols = [
        line.partition("=")[0] for line in building.CONFIG.read_text().splitlines() if line[:7] == "CONFIG_"
    ]
    assert len(symbols) == len(set(symbols))
    assert {f"CONFIG_{name}" for name in building.NEEDED} <= set(symbols)


def test_a_source_that_is_not_linux_is_refused_with_the_file_that_lacks(tmp_path: Path) -> None:
    (tmp_path / "Kconfig").touch()
    with pytest.raises(UserError, match="it is not a Linux tree, `arch/um/Makefile` is not there"):
        Tree(tmp_path)


def test_documentation_is_not_copied_but_for_what_kconfig_reads() -> None:
    assert not source.read_by_a_build("Documentation/networking/tcp.rst")
    assert source.read_by_a_build("Documentation/Kconfig")
    assert source.read_by_a_build("net/ipv4/tcp.c")


def test_a_description_that_is_damaged_is_no_kernel(linux: Path) -> None:
    kernel, _, _ = build(linux)
    (kernel.folder / "kernel.json").write_text(json.dumps({"name": "mine"}))
    assert store.read("mine") is None
    kernel.image.unlink()
    assert store.kernels() == []
