"""Kernels with counters: building them, on a tree that has Linux's files and targets but compiles two files."""

from pathlib import Path

import pytest
from small_tree import build
from typer.testing import CliRunner

from tcpassay.cli import app
from tcpassay.errors import UserError
from tcpassay.gcov import Catalogue
from tcpassay.gcov.counted import kernel_with_counters
from tcpassay.kernel import store
from tcpassay.kernel.variant import COVERAGE, DEBUG, PLAIN, Variant, kernel_name

GCOV = """#include "gcov.h"

/*
 * __gcov_init is called by gcc-generated constructor code for each object
 * file compiled with -fprofile-arcs.
 */
void __gcov_init(struct gcov_info *info)
{
	static unsigned int gcov_version;

	mutex_lock(&gcov_lock);
	if (gcov_version == 0) {
		gcov_version = gcov_info_version(info);
"""
GCOV_MAKEFILE = """# SPDX-License-Identifier: GPL-2.0
ccflags-y := -DSRCTREE='"$(srctree)"' -DOBJTREE='"$(objtree)"'

obj-y := base.o fs.o
obj-$(CONFIG_CC_IS_GCC) += gcc_base.o gcc_4_7.o
"""


@pytest.fixture
def counted(linux: Path) -> Path:
    """A tree of which a file with a function is counted."""
    (linux / "kernel/gcov").mkdir(parents=True)
    (linux / "kernel/gcov/gcc_base.c").write_text(GCOV)
    (linux / "kernel/gcov/Makefile").write_text(GCOV_MAKEFILE)
    (linux / "net/ipv4/tcp.c").write_text("int tcp(int n)\n{\n\treturn n ? 1 : 2;\n}\n")
    return linux


def test_a_kernel_with_counters_has_notes_sources_and_a_list_of_what_is_counted(counted: Path) -> None:
    kernel, new, _ = build(counted, "mine+coverage", of=COVERAGE)
    assert new
    assert kernel.variant == "coverage"
    assert kernel.notes == kernel.folder / "coverage"
    (file,) = Catalogue.read(kernel.notes / "catalogue.json").files
    assert (file.name, file.lines) == ("net/ipv4/tcp.c", (1, 3))
    assert (kernel.notes / "net/ipv4/tcp.c").read_text().startswith("int tcp")
    assert kernel_with_counters(None) == kernel


def test_the_variant_shares_the_source_and_has_objects_of_its_own(counted: Path) -> None:
    plain, _, first = build(counted)
    with_counters, _, second = build(counted, "mine+coverage", of=COVERAGE)
    assert first == ["arch/um/os-Linux/util.o", "linux", "net/ipv4/tcp.o"]
    # The other object is that of the plain kernel.
    assert second == ["linux", "net/ipv4/tcp.o"]
    assert plain.key != with_counters.key
    assert plain.notes is None
    assert (store.read("mine") or with_counters) == plain
    _, again, _ = build(counted, "mine+coverage", of=COVERAGE)
    assert not again


def test_the_kernel_with_checkers_shares_no_objects_because_its_configuration_differs(counted: Path) -> None:
    _, _, first = build(counted)
    checked, new, second = build(counted, "mine+debug", of=DEBUG)
    assert new
    assert second == first
    assert (checked.variant, checked.absent, checked.notes) == ("debug", [], None)
    assert "CONFIG_KASAN=y" in (checked.folder / "tree/build-debug/.config").read_text()
    assert "CONFIG_KASAN" not in (checked.folder / "tree/build/.config").read_text()


def test_a_checker_that_a_version_does_not_have_is_recorded(counted: Path) -> None:
    makefile = counted / "Makefile"
    makefile.write_text(
        makefile.read_text().replace("cp $(KCONFIG_ALLCONFIG)", "grep -v DEBUG_NET $(KCONFIG_ALLCONFIG) >")
    )
    assert build(counted, "mine+debug", of=DEBUG)[0].absent == ["DEBUG_NET"]


def test_counters_and_checkers_exclude_each_other() -> None:
    ran = CliRunner().invoke(app, ["kernel", "build", "--coverage", "--debug"])
    assert "exclude each other" in str(ran.exception)


def test_a_tree_without_the_options_of_the_variant_is_refused(counted: Path) -> None:
    makefile = counted / "Makefile"
    makefile.write_text(
        makefile.read_text().replace("cp $(KCONFIG_ALLCONFIG)", "grep -v UBSAN $(KCONFIG_ALLCONFIG) >")
    )
    with pytest.raises(UserError, match="it has no UBSAN"):
        build(counted, "mine+other", of=Variant("other", config=("UBSAN=y",), needed=frozenset({"UBSAN"})))
    assert store.read("mine+other") is None


def test_a_tree_to_which_the_patch_of_the_variant_does_not_apply_is_refused(counted: Path) -> None:
    (counted / "kernel/gcov/gcc_base.c").write_text("another file\n")
    with pytest.raises(UserError, match="0001-gcov-counters-on-the-host"):
        build(counted, "mine+coverage", of=COVERAGE)


def test_a_kernel_without_counters_is_refused_with_what_to_do(counted: Path) -> None:
    build(counted)
    with pytest.raises(UserError, match="kernel build --coverage"):
        kernel_with_counters("mine")
    with pytest.raises(UserError, match="no kernel has counters"):
        kernel_with_counters(None)


def test_the_name_ends_with_that_of_the_variant() -> None:
    assert kernel_name("6.1", COVERAGE) == "6.1+coverage"
    assert kernel_name("6.1", PLAIN) == "6.1"
    assert kernel_name("x" * 64, COVERAGE) == "x" * 55 + "+coverage"
