"""`tcpassay follow` as a user runs it: on runs of the model, which the model follows to the end."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import sealed
from tcpassay import following
from tcpassay.errors import UserError
from tcpassay.first_difference import FirstDifference
from tcpassay.following import Followed, FollowedEnd

PLAN = """
name = "small"
substrates = ["model"]
oracles = false
seeds = [1]
[fixed]
"stack.profile" = "linux"
"link.rate" = "10Mbit"
"link.delay" = "5ms"
"link.loss_model" = "list:41,42"
"app.duration" = "1s"
[axes]
"stack.cc" = ["cubic", "reno"]
[collect]
events = true
packets = true
"""


def tcpassay(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tcpassay", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("following")
    plan = place / "plan.toml"
    plan.write_text(PLAN)
    done = tcpassay("run", plan, "--out", place / "results", "--jobs", 1)
    assert done.returncode == 0, done.stderr
    return place / "results"


def test_the_model_follows_its_own_runs_to_the_end(results: Path) -> None:
    done = tcpassay("follow", results)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 ends: 4 followed to the end, 100.0 %; " in done.stdout
    told = json.loads(tcpassay("follow", results, "--base", results, "--json").stdout)
    assert (told["new"], told["earlier"]) == ([], [])
    assert told["followed_to_the_end"] == 4
    assert (told["causes"], told["unfollowed"], told["problems"]) == ([], {}, [])
    assert all(end["followed"] == end["rows"] > 500 for end in told["ends"])


def test_a_single_recording_is_followed_and_one_without_packets_is_not(results: Path, tmp_path: Path) -> None:
    recording = min((results / "recordings").iterdir())
    done = tcpassay("follow", recording)
    assert "2 ends: 2 followed to the end, 100.0 %; " in done.stdout
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in recording.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    index = json.loads((copy / "recording.json").read_text(encoding="utf-8"))
    del index["files"]["packets.pcapng"]
    (copy / "packets.pcapng").unlink()
    sealed.recording(copy, index)
    done = tcpassay("follow", copy)
    assert "not followed (1): only a recording with an event log and packets can be followed" in done.stdout
    assert done.stdout.rstrip().endswith("0 ends: 0 followed to the end; 0 of 0 rows")


def test_a_damaged_recording_is_named(results: Path, tmp_path: Path) -> None:
    recording = min((results / "recordings").iterdir())
    for file in recording.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "events.parquet").write_bytes(b"PAR1")
    done = tcpassay("follow", tmp_path)
    assert done.returncode == 1
    assert "damaged: " in done.stdout
    assert "events.parquet" in done.stdout


def test_a_sender_without_writes_differs_at_its_first_data(results: Path, tmp_path: Path) -> None:
    recording = min((results / "recordings").iterdir())
    for file in recording.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    # Without the writes of the application the sender has nothing to send.
    events = pl.read_parquet(tmp_path / "events.parquet").filter(pl.col("why") != "write")
    events.write_parquet(tmp_path / "events.parquet", compression="snappy")
    index = json.loads((tmp_path / "recording.json").read_text(encoding="utf-8"))
    index["files"]["events.parquet"]["rows"] = events.height
    sealed.recording(tmp_path, index)
    done = tcpassay("follow", tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "new data that the model would not have sent: nothing to send in Open" in done.stdout
    assert "why:   its window has room, and nothing is to be sent (state Open), tcp_write_xmit" in done.stdout


def test_other_folders_and_fields_are_refused(results: Path, tmp_path: Path) -> None:
    done = tcpassay("follow", tmp_path / "none")
    assert (done.returncode, done.stdout) == (2, "")
    assert "it is not the folder of a recording or of results" in done.stderr
    done = tcpassay("follow", results, "--base", "kernel:6.1")
    assert done.returncode == 2
    assert "those are `model`" in done.stderr
    done = tcpassay("follow", results, "--count", "colour")
    assert done.returncode == 2
    assert "`colour` is not a field of a segment; allowed are sequence number, length," in done.stderr
    with pytest.raises(UserError, match="`colour` is not a field"):
        following.follow_folder(results, ["colour"])


def end(flow: str, time_ns: int | None, substrate: str = "kernel:6.1") -> FollowedEnd:
    first = (
        None if time_ns is None else FirstDifference(3, time_ns, "k", "s", "e", "w", "f", "an ACK is missing")
    )
    return FollowedEnd("a-1", "sender", flow, 10, 3, 2, {}, first, substrate, "a")


def test_a_stack_under_test_has_new_and_earlier_first_differences() -> None:
    base = Followed([end("flow.0", None), end("flow.1", 500), end("flow.2", 500), end("flow.3", 500)], {})
    head = Followed([end("flow.0", 700), end("flow.1", 400), end("flow.2", 500), end("flow.3", None)], {})
    compared = following.compare(base, head)
    assert [one.flow for one in compared.new] == ["flow.0"]
    assert [one.flow for one in compared.earlier] == ["flow.1"]
    alone = replace(head, ends=[replace(head.ends[0], flow="flow.9")])
    assert following.compare(base, alone) == following.Compared([], [])


def test_results_of_two_kernels_are_split_into_the_plain_one_and_the_others() -> None:
    done = Followed([end("flow.0", 5), end("flow.0", 3, "kernel:patched")], {})
    base, head = following.split(done, "kernel:6.1")
    assert [one.substrate for one in base.ends] == ["kernel:6.1"]
    assert [one.flow for one in following.compare(base, head).earlier] == ["flow.0"]
    with pytest.raises(UserError, match=r"`kernel:7.3` is no folder, and not one of several substrates"):
        following.split(done, "kernel:7.3")
    with pytest.raises(UserError, match=r"those are `kernel:6.1`"):
        following.split(base, "kernel:6.1")


def test_causes_are_counted_the_most_frequent_first() -> None:
    other = end("flow.4", 1)
    assert other.first is not None
    other = replace(other, first=replace(other.first, cause="a read"))
    done = Followed([end("flow.0", 5), other, end("flow.2", 6), end("flow.3", None)], {})
    causes = [(cause.cause, cause.count) for cause in done.causes]
    assert (done.whole, causes) == (1, [("an ACK is missing", 2), ("a read", 1)])
