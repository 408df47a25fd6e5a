"""`tcpassay stack build`: what is built, and what is left when it cannot be."""

from pathlib import Path

import pytest

import plans
from tcpassay import _native
from tcpassay.errors import UserError
from tcpassay.stacks import build


def toolchain(folder: Path, script: str, name: str = "go") -> None:
    """A program that does as the script says."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


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
        UserError,
        match="`linux` is not a stack that is built; there are gvisor, lwip, pytcp, smoltcp@VERSION",
    ):
        build.build("linux")


def test_another_smoltcp_is_built_from_the_sources_of_this_program(cache: Path, tmp_path: Path) -> None:
    script = 'case $1 in pkgid) echo "index#smoltcp@0.13.1";; build) mkdir -p target/release; '
    script += "cat stack/Cargo.toml stack/src/smoltcp.rs adapter.rs units/src/time.rs > target/release/adapter;; esac"
    toolchain(tmp_path / "bin", script, "cargo")
    program = build.build("smoltcp@0.13")
    assert program == cache / "stacks" / "smoltcp@0.13" / "adapter"
    text = program.read_text(encoding="utf-8")
    assert 'smoltcp = { version = "=0.13", ' in text
    assert 'pub const VERSION: &str = "0.13.1";' in text
    assert "name=smoltcp\\nversion" in text
    assert "pub struct Dur" in text


def test_the_sources_of_the_adapter_are_whole_crates() -> None:
    crates = plans.REPOSITORY / "crates"
    there = {
        f"{crate}/src/{file.name}"
        for crate in ("units", "stack")
        for file in (crates / crate / "src").iterdir()
    }
    assert set(_native.adapter_sources()) == {*there, "adapter.rs"}


def test_a_version_of_lwip_that_nobody_distributes_is_refused(cache: Path, tmp_path: Path) -> None:
    toolchain(tmp_path / "bin", "exit 1", "cargo")
    with pytest.raises(
        UserError, match=r"`lwip@9.9` cannot be built: lwIP 9.9: there are 2.1.3; the log is "
    ):
        build.build("lwip@9.9")
    assert not (cache / "stacks" / "lwip@9.9" / "adapter").exists()
