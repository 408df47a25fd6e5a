"""A tree that has Linux's files and targets but compiles two lines, for tests of builds of kernels."""

from pathlib import Path

from tcpassay.kernel import build as building
from tcpassay.kernel import series, store, variant
from tcpassay.kernel.source import Source, Tree

# `linux` is made of the sources that a patch touches and of one more; what is compiled is printed as Linux does.
MAKEFILE = """
SRC := $(CURDIR)
PARTS := arch/um/os-Linux/util net/ipv4/tcp
allnoconfig:
	@mkdir -p $(O)/include/config; cp $(KCONFIG_ALLCONFIG) $(O)/.config
	@echo 6.1.7-test > $(O)/include/config/kernel.release
$(O)/%.o: %.c
	@mkdir -p $(dir $@); echo "  CC      $*.o"; gcc -c $(if $(GCOV_PROFILE_$(notdir $*).o),--coverage) -x c $< -o $@
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
    """Discards the progress messages of a build."""


def build(
    tree: Path | Source, name: str = "mine", *patches: Path, of: variant.Variant = variant.PLAIN
) -> tuple[store.Kernel, bool, list[str]]:
    """The kernel, whether it was built, and what was compiled."""
    steps: list[str] = []
    built_from = Tree(tree) if isinstance(tree, Path) else tree
    kernel, new = building.build(
        built_from,
        name,
        users=series.read(list(patches)),
        variant=of,
        jobs=2,
        say=no_one_listens,
        stepped=steps.append,
    )
    return kernel, new, sorted(steps)


ONE = "--- a/net/ipv4/tcp.c\n+++ b/net/ipv4/tcp.c\n@@ -1 +1,2 @@\n int tcp;\n+int one;\n"
NEW = "--- /dev/null\n+++ b/net/ipv4/new.h\n@@ -0,0 +1 @@\n+int new;\n"


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name
