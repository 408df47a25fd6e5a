"""Scratch folders are removed when their process ends, for any reason."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tcpassay import scratch

HOLD = """
import sys
from tcpassay import scratch
with scratch.folder() as made:
    (made / "file").write_text("x")
    print(made, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def held() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_process_is_removed_by_the_next_and_that_of_a_living_one_is_not() -> None:
    dead, left = held()
    dead.send_signal(signal.SIGKILL)
    dead.communicate()
    assert (left / "file").exists()
    living, used = held()
    assert not left.exists()
    with scratch.folder() as own:
        assert (used / "file").exists()
        assert own.is_dir()
        assert own.parent == used.parent
    assert not own.exists()
    living.communicate("")
    assert not used.exists()


def test_a_folder_that_was_only_half_made_is_removed_and_what_is_no_folder_is_left_alone(
    temporary: Path,
) -> None:
    home = temporary / f"tcpassay-{os.getuid()}"
    (home / "half").mkdir(parents=True)
    home.chmod(0o700)
    victim = temporary / "victim"
    victim.mkdir()
    (home / "link").symlink_to(victim)
    (home / "file").write_text("x", encoding="utf-8")
    with scratch.folder():
        assert not (home / "half").exists()
        assert (home / "link").is_symlink()
        assert victim.is_dir()
        assert (home / "file").exists()


@pytest.mark.parametrize("how", ["link", "open"])
def test_a_home_that_is_not_this_users_own_is_not_used(temporary: Path, how: str) -> None:
    home = temporary / f"tcpassay-{os.getuid()}"
    elsewhere = temporary / "elsewhere"
    (elsewhere / "precious").mkdir(parents=True)
    if how == "link":
        home.symlink_to(elsewhere)
    else:
        elsewhere.rename(home)
        home.chmod(0o777)
    with scratch.folder() as made:
        assert made.parent == temporary
    assert (home / "precious").is_dir()
    assert not made.exists()


def test_a_folder_that_its_process_removes_during_the_search_is_passed_over(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = temporary / f"tcpassay-{os.getuid()}"
    (home / "ending").mkdir(parents=True)
    home.chmod(0o700)
    listed = os.scandir

    def list_then_remove(folder: Path) -> list[os.DirEntry[str]]:
        entries = list(listed(folder))
        (home / "ending").rmdir()
        return entries

    monkeypatch.setattr(os, "scandir", list_then_remove)
    with scratch.folder() as own:
        monkeypatch.setattr(os, "scandir", listed)
        assert own.is_dir()
        assert [entry.name for entry in home.iterdir() if entry.is_dir()] == [own.name]
