"""Recordings: identical bytes from every process with any collected data, and readable by other programs."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

import plans
from tcpassay import _native

# Losses, reordering, jitter, marks, offloads and three flows: everything that draws random numbers.
ROUGH: dict[str, bool | float | str] = {
    "app.duration": "300ms",
    "app.flows": 3,
    "link.rate": "200Mbit",
    "link.delay": "2ms",
    "link.jitter": "100us",
    "link.loss": "0.5%",
    "link.reorder": "1%:3",
    "link.duplicate": "0.1%",
    "queue.kind": "red",
    "queue.ecn": True,
    "stack.ecn": "dctcp",
    "stack.cc": "dctcp",
    "stack.profile": "linux-4.6",
    "nic.tso": True,
    "nic.gro": True,
}
NOTHING: dict[str, str | bool | None] = {
    "series": None,
    "warmup": "0s",
    "deliveries": False,
    "events": False,
    "packets": False,
}
EVERYTHING = NOTHING | {"series": "1ms", "deliveries": True, "events": True, "packets": True}


def run(folder: Path, *, seed: int = 7, collect: dict[str, str | bool | None] = NOTHING) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(_native.run_case(ROUGH, seed, ".", collect, str(folder)))
    return made


def digests(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_two_processes_leave_byte_identical_recordings(tmp_path: Path) -> None:
    request = json.dumps({"triples": ROUGH, "seed": 7, "base": ".", "collect": EVERYTHING})
    code = (
        "import json, sys; from tcpassay import _native; print(_native.run_case(**json.loads(sys.argv[1])))"
    )
    told = []
    for name in ("one", "two"):
        whole = json.loads(request) | {"folder": str(tmp_path / name)}
        command = [sys.executable, "-c", code, json.dumps(whole)]
        told.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert told[0] == told[1]
    one, two = digests(tmp_path / "one"), digests(tmp_path / "two")
    assert one == two
    assert set(one) >= {
        "recording.json",
        "series.parquet",
        "events.parquet",
        "deliveries.parquet",
        "packets.pcapng",
    }


def test_the_scenario_has_what_could_differ(tmp_path: Path) -> None:
    run(tmp_path / "run", collect=EVERYTHING)
    index = json.loads((tmp_path / "run" / "recording.json").read_text(encoding="utf-8"))
    senders = [flow for flow in index["flows"] if flow["counters"]["sent_bytes"]]
    assert len(senders) == 3
    assert all(flow["counters"]["retransmitted_packets"] > 0 for flow in senders)
    assert all(flow["counters"]["ce_packets"] > 0 for flow in senders)
    assert sum(device["counters"]["marks"] for device in index["devices"]) > 10


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    assert run(tmp_path / "one")["trace"] != run(tmp_path / "two", seed=8)["trace"]


@pytest.mark.parametrize("on", ["series", "deliveries", "events", "packets", "everything"])
def test_collectors_never_influence_a_run(tmp_path: Path, on: str) -> None:
    without = run(tmp_path / "off")
    collect = EVERYTHING if on == "everything" else NOTHING | {on: EVERYTHING[on]}
    collected = run(tmp_path / "on", collect=collect)
    for what in ("trace", "events", "hops", "ended"):
        assert collected[what] == without[what], what
    flows = [
        json.loads((tmp_path / name / "recording.json").read_text(encoding="utf-8"))["flows"]
        for name in ("off", "on")
    ]
    assert flows[0] == flows[1]


def test_other_libraries_read_the_tables(tmp_path: Path) -> None:
    run(tmp_path / "run", collect=EVERYTHING)
    for file in sorted((tmp_path / "run").glob("*.parquet")):
        ours, theirs = pl.read_parquet(file), pq.read_table(file)
        assert ours.height == theirs.num_rows > 0
        assert ours.columns == theirs.column_names


def test_the_event_log_is_in_order_of_time_and_says_why(tmp_path: Path) -> None:
    run(tmp_path / "run", collect=EVERYTHING)
    events = pl.read_parquet(tmp_path / "run" / "events.parquet")
    assert events["time_ns"].is_sorted()
    kinds = set(events["kind"].unique())
    assert {"in", "out", "retransmit", "timer_set", "congestion", "window", "rtt", "ack_delay"} <= kinds
    assert (events.filter(pl.col("kind") == "congestion")["why"] != "").all()


def test_a_run_of_a_plan_and_the_case_by_itself_are_the_same_bytes(tmp_path: Path) -> None:
    plan = plans.write(tmp_path, plans.KEPT)
    command = [sys.executable, "-m", "tcpassay", "run", str(plan), "--out", str(tmp_path / "out"), "--json"]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    ran = json.loads(out)["runs"][0]
    alone = json.loads(
        _native.run_case(
            ran["triples"], ran["seed"], ".", NOTHING | {"series": "1ms"}, str(tmp_path / "alone")
        )
    )
    assert alone["trace"] == ran["trace"]
    assert digests(tmp_path / "alone") == digests(tmp_path / "out" / ran["recording"])


def test_a_folder_that_cannot_be_written_is_an_os_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OSError, match="file"):
        run(tmp_path / "file" / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
