"""Builds of kernels that are interrupted or killed."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from small_tree import MAKEFILE, build, no_one_listens

from tcpassay.kernel import build as building
from tcpassay.kernel import store
from tcpassay.kernel.source import Tree

# The image is linked when the file `go` is in the tree; `begun` says that make has come to it.
WAITING = MAKEFILE.replace(
    '@echo "  LD      linux";',
    '@touch $(SRC)/begun; while [ ! -e $(SRC)/go ]; do sleep 0.02; done; echo "  LD      linux";',
)


def test_an_interrupted_build_leaves_no_kernel_and_is_continued(linux: Path) -> None:
    def stop(file: str) -> None:
        if file == "net/ipv4/tcp.o":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        building.build(Tree(linux), "mine", jobs=1, say=no_one_listens, stepped=stop)
    assert store.kernels() == []
    _, new, steps = build(linux)
    assert new
    assert "arch/um/os-Linux/util.o" not in steps
    assert "linux" in steps


def test_the_build_after_one_that_was_killed_waits_until_its_make_has_ended(linux: Path) -> None:
    (linux / "Makefile").write_text(WAITING)
    copied = store.tree(Tree(linux).identity) / "source"
    child = os.fork()
    if child == 0:
        build(linux)
        os._exit(0)
    while not (copied / "begun").exists():
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    said: list[str] = []
    waits = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        waits.set()

    def again() -> None:
        building.build(Tree(linux), "mine", jobs=1, say=say, stepped=no_one_listens)

    second = threading.Thread(target=again)
    second.start()
    assert waits.wait(60)
    assert said == ["waiting for another build of this source"]
    assert store.kernels() == []
    (copied / "go").touch()
    second.join(60)
    assert [one.name for one in store.kernels()] == ["mine"]
