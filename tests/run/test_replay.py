"""`tcpassay replay`: repeats one run from the folder alone, with identical bytes."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import folders
from tcpassay import __version__, load
from tcpassay.judge import read_findings
from tcpassay.run import replay as replaying

# A stack that treats reordering as loss, and one that waits.
PLAN = """\
name = "found"
seeds = [3]
keep.sample = "0%"

[fixed]
"app.duration" = "300ms"
"link.rate" = "100Mbit"
"link.delay" = "5ms"
"link.reorder" = "reverse-burst:5"

[axes]
"stack.profile" = ["freebsd", "linux"]
"""


def tcpassay(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", *map(str, args)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("ran")
    (folder / "plan.toml").write_text(PLAN, encoding="utf-8")
    done = tcpassay("run", "plan.toml", "--out", "out", cwd=folder)
    # What it found is a warning: that halves throughput and breaks no rule.
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


@pytest.fixture
def copy(ran: tuple[Path, str], tmp_path: Path) -> Path:
    shutil.copytree(ran[0] / "out", tmp_path / "out")
    return tmp_path


def runs(folder: Path) -> dict[str, dict[str, Any]]:
    return {run["varied"]["stack.profile"]: run for run in load(folder).runs}


def test_a_finding_keeps_its_recording_with_the_event_log_and_says_how_to_repeat_it(
    ran: tuple[Path, str],
) -> None:
    folder, said = ran
    (finding,) = read_findings(folder / "out")
    case = runs(folder / "out")["freebsd"]["case"]
    assert finding.replay == f"tcpassay replay out {case}"
    assert finding.replay in said
    assert "stack.profile=freebsd (1 of 1 runs with that)" in said
    assert {path.name for path in (folder / "out" / "recordings").iterdir()} == {f"{case}-3"}
    events = load(folder / "out").events(case)
    for row in finding.events:
        assert (events["time_ns"][row.index], events["kind"][row.index]) == (row.time_ns, row.kind)


def test_a_recording_with_other_bytes_was_changed_unless_another_version_wrote_it(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = runs(copy / "out")["freebsd"]["case"]
    index = copy / "out" / "recordings" / f"{case}-3" / "recording.json"
    index.write_bytes(index.read_bytes() + b"\n")
    done = replaying.replay(copy / "out", case, None, None)
    assert (done.same, done.damaged, done.differing) == (False, ["recording.json"], ["recording.json"])
    monkeypatch.setattr(replaying, "__version__", "9.9.9")
    done = replaying.replay(copy / "out", case, None, None)
    assert (done.same, done.damaged, done.differing) == (False, [], ["recording.json"])
    assert done.notes == [f"the run was made with tcpassay {__version__}; this is 9.9.9"]
    assert replaying.words(done).endswith(
        "this version writes other bytes in these files of the recording: recording.json"
    )


def test_a_run_with_a_recording_is_repeated_byte_for_byte_and_judged_again(ran: tuple[Path, str]) -> None:
    folder, _ = ran
    (finding,) = read_findings(folder / "out")
    done = tcpassay(*finding.replay.split()[1:], "--json", cwd=folder)
    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert told["same"] is True
    assert told["files"].keys() == {"recording.json", "events.parquet", "latency.parquet", "series.parquet"}
    assert [one["text"] for one in told["findings"]] == [finding.text]


def test_a_run_without_a_recording_is_compared_by_trace_and_checksums(
    ran: tuple[Path, str], tmp_path: Path
) -> None:
    folder, _ = ran
    run = runs(folder / "out")["linux"]
    assert run["recording"] is None
    done = tcpassay("replay", "out", run["case"][:6], "--out", tmp_path / "again", "--packets", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"the same run: trace {run['trace']} as before" in done.stdout
    assert (tmp_path / "again" / "packets.pcapng").stat().st_size > 100_000
    plain = json.loads(tcpassay("replay", "out", run["case"], "--json", cwd=folder).stdout)
    assert (plain["same"], plain["checksums_same"], plain["files"]) == (True, True, {})


def change(folder: Path, profile: str, **values: Any) -> str:
    result = folders.result(folder / "out")
    (run,) = [run for run in result["runs"] if run["varied"]["stack.profile"] == profile]
    run.update(values)
    folders.write(folder / "out", result)
    return str(run["case"])


def test_another_trace_is_reported_and_is_exit_code_1(copy: Path) -> None:
    case = change(copy, "linux", trace="0123456789abcdef")
    done = tcpassay("replay", "out", case, cwd=copy)
    assert done.returncode == 1
    assert "NOT the same run" in done.stdout
    assert "trace 0123456789abcdef before" in done.stdout


def test_one_changed_byte_of_the_recording_is_reported_with_its_file(copy: Path) -> None:
    case = runs(copy / "out")["freebsd"]["case"]
    file = copy / "out" / "recordings" / f"{case}-3" / "series.parquet"
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    done = tcpassay("replay", "out", case, cwd=copy)
    assert done.returncode == 1
    assert "other bytes than the run makes: series.parquet" in done.stdout


def test_without_result_and_plan_a_kept_recording_is_enough_to_repeat_it(copy: Path) -> None:
    case = runs(copy / "out")["freebsd"]["case"]
    (copy / "out" / "result.json").write_text("{", encoding="utf-8")
    (copy / "out" / "journal.sqlite").unlink()
    done = tcpassay("replay", "out", case, "--json", cwd=copy)
    told = json.loads(done.stdout)
    assert (done.returncode, told["same"]) == (0, True), done.stderr
    assert told["files"]["events.parquet"] is True


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("ffffffffff",), "`ffffffffff`: no case has this id"),
        (("",), "several cases begin so: "),
    ],
)
def test_an_unknown_run_is_reported(ran: tuple[Path, str], args: tuple[str, ...], said: str) -> None:
    done = tcpassay("replay", "out", *args, cwd=ran[0])
    assert done.returncode == 2
    assert said in done.stderr


def test_a_recording_is_not_written_over_something(ran: tuple[Path, str]) -> None:
    folder, _ = ran
    case = runs(folder / "out")["linux"]["case"]
    done = tcpassay("replay", "out", case, "--out", "out", cwd=folder)
    assert done.returncode == 2
    assert "it exists already" in done.stderr
