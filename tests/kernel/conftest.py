"""Fixtures for tests of builds of kernels, and of the substrate `kernel`, which are skipped if it cannot run."""

from pathlib import Path

import pytest
from small_tree import MAKEFILE, PATCH, UTIL

from tcpassay.errors import UserError
from tcpassay.kernel import boots, series, shadow
from tcpassay.kernel import build as building
from tcpassay.substrate import substrate_of


@pytest.fixture(scope="session")
def kernel() -> str:
    """The name of a substrate on which cases can be run."""
    try:
        substrate_of("kernel").ready()
    except UserError as error:
        pytest.skip(f"no case can be run on a kernel: {error}")
    return "kernel"


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
    monkeypatch.setattr(shadow, "patches", lambda: [series.Patch("first", PATCH)])
    monkeypatch.setattr(building, "missing_tools", list)
    # What is compiled here is no kernel; tests of its own below have guests that end in several ways.
    monkeypatch.setattr(boots, "require", lambda *_: None)
    return tree
