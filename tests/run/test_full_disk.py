"""A disk that becomes full during a run, on a separate small file system."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import folders
import plans

# Runs until the disk is full, says so, and goes on when there is space: all in one mount namespace.
SCRIPT = """
mount -t tmpfs -o size="$5" tmpfs "$2" || exit 77
"$1" -m tcpassay run "$3" --out "$2/out" --jobs 2 >"$4/first.out" 2>"$4/first.err"
echo $? >"$4/first.code"
mount -o remount,size=200m "$2" || exit 77
"$1" -m tcpassay run --resume "$2/out" --jobs 2 >"$4/second.out" 2>"$4/second.err"
echo $? >"$4/second.code"
cp -r "$2/out" "$4/out"
"""


@pytest.mark.parametrize("size", ["256k", "700k", "1m", "1500k"])
def test_a_full_disk_stops_cleanly_and_with_space_it_is_resumed(tmp_path: Path, size: str) -> None:
    for name in ("disk", "kept"):
        (tmp_path / name).mkdir()
    text = plans.KEPT.replace("seeds = [7]", f"seeds = {list(range(20))}")
    plan = plans.write(tmp_path, text.replace('series = "1ms"', 'series = "1ms"\nevents = true'))
    arguments = [sys.executable, tmp_path / "disk", plan, tmp_path / "kept", size]
    command = ["unshare", "-rm", "sh", "-c", SCRIPT, "sh", *map(str, arguments)]
    if shutil.which("unshare") is None:
        pytest.skip("no unshare here")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this user may not mount a file system")
    kept = tmp_path / "kept"
    first = (kept / "first.err").read_text(encoding="utf-8")
    assert (kept / "first.code").read_text().strip() == "2", first
    assert "Traceback" not in first
    assert len(first.splitlines()) == 1
    assert "tcpassay run --resume" in first or "cannot write results there" in first
    second = (kept / "second.err").read_text(encoding="utf-8")
    if "--resume" in first:
        assert "runs are safe: make space, then" in first
        assert (kept / "second.code").read_text().strip() == "0", second
        result = folders.result(kept / "out")
        assert result["status"] == "complete"
        assert [run["outcome"] for run in result["runs"]] == ["done"] * 40
        assert all((kept / "out" / run["recording"] / "recording.json").is_file() for run in result["runs"])
    else:  # there was not even space to begin
        assert size == "256k"
