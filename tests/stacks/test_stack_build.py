"""`tcpassay stack build`: what is built, and what is left when it cannot be."""

from pathlib import Path

import pytest

from tcpassay.errors import UserError
from tcpassay.stacks import build


def toolchain(folder: Path, script: str) -> None:
    """A program `go` that does as the script says."""
    folder.mkdir(exist_ok=True)
    (folder / "go").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "go").chmod(0o755)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TCPASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path / "cache"


def test_a_build_that_fails_names_its_log_and_leaves_the_program_that_was_there(
    cache: Path, tmp_path: Path
) -> None:
    toolchain(tmp_path / "bin", 'cp go.mod "$5"; chmod +x "$5"')
    program = build.build("gvisor")
    assert program == cache / "stacks" / "gvisor" / "adapter"
    assert build.is_built("gvisor")
    before = program.read_bytes()
    toolchain(tmp_path / "bin", 'echo half > "$5"; echo "no route to the registry" >&2; exit 3')
    with pytest.raises(UserError) as failed:
        build.build("gvisor")
    log = cache / "stacks" / "gvisor" / "build.log"
    assert str(failed.value) == f"`gvisor` cannot be built: no route to the registry; the log is {log}"
    assert log.read_text() == "no route to the registry\n"
    assert program.read_bytes() == before
    # Beside the place of temporary folders, which is empty.
    left = {path.name for path in program.parent.rglob("*") if path.is_file() and path.name != ".lock"}
    assert left == {"adapter", "build.log"}


def test_without_the_toolchain_the_message_says_what_to_install(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match=r"`gvisor` needs `go`: install Go 1.26 or newer"):
        build.build("gvisor")
    assert not cache.exists()


def test_a_name_without_a_recipe_is_refused() -> None:
    with pytest.raises(
        UserError, match="`linux` is not a stack that is built; there are gvisor, lwip, pytcp"
    ):
        build.build("linux")
