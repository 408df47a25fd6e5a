"""A kernel that was built must boot before it is stored."""

from pathlib import Path

import pytest
from small_tree import build, write

from tcpassay.errors import UserError
from tcpassay.kernel import boots, store

GUESTS = {
    "boots": ("echo 'Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000000'; exit 1", ""),
    "panics": (
        "echo booting; echo 'Kernel panic - not syncing: no memory'; exit 6",
        r"does not boot \(exit code 6\); its console is in .*boot.log:\n    booting\n    Kernel panic",
    ),
    "has no init": (
        "echo 'Attempted to kill init! exitcode=0x00000100'; exit 1",
        r"does not boot \(exit code 1\)",
    ),
    "says nothing": ("exit 3", r"does not boot \(exit code 3\).*\n    \(nothing\)"),
}


@pytest.mark.parametrize("kind", GUESTS)
def test_a_kernel_that_does_not_reach_init_is_refused_with_its_last_lines(tmp_path: Path, kind: str) -> None:
    script, message = GUESTS[kind]
    image = write(tmp_path, "linux", f"#!/bin/sh\n{script}\n")
    image.chmod(0o755)
    if not message:
        boots.require(image, tmp_path / "boot.log")
        assert "Attempted" in (tmp_path / "boot.log").read_text()
        return
    with pytest.raises(UserError, match=message):
        boots.require(image, tmp_path / "boot.log")


def test_a_kernel_that_does_not_boot_is_not_in_the_store(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(image: Path, log: Path, _controllers: list[str]) -> None:
        assert image.name == "linux.new"
        raise UserError(f"does not boot, see {log.name}")

    build(linux)
    (linux / "net/ipv4/tcp.c").write_text("int tcp2;\n")
    monkeypatch.setattr(boots, "require", refuse)
    with pytest.raises(UserError, match=r"does not boot, see boot.log"):
        build(linux)
    assert store.kernels() == []
