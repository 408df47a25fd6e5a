"""Result folders with literal numbers for the report, and recordings to go with them."""

import json
from pathlib import Path
from typing import Any

import polars as pl

import folders
import sealed
from tcpassay.gcov.catalogue import Branch, Catalogue, File, Function
from tcpassay.judge import Finding, Row, Severity, write_findings

MS = 1_000_000

# case, controller, buffer, goodput in Mbit/s, median RTT in ms; a case each, and the last one crashed.
RUNS = (
    ("aaaa000001", "reno", "50KB", 10, 4),
    ("aaaa000002", "reno", "500KB", 20, 8),
    ("aaaa000003", "reno", "1MB", 30, 12),
    ("aaaa000004", "reno", "2MB", 40, 16),
    ("aaaa000005", "reno", "4MB", 50, 20),
    ("bbbb000001", "cubic", "50KB", 60, 4),
    ("bbbb000002", "cubic", "500KB", 70, 8),
    ("bbbb000003", "cubic", "1MB", 80, 12),
    ("bbbb000004", "cubic", "2MB", 90, 16),
)
WATCHED = "aaaa000002"

TEXT = "The timer fired at 40.000 ms with 2000 bytes outstanding, and none of them was lost."
REPLAY = "tcpassay replay results/made aaaa000002 --seed 1"


def folder(path: Path, *, name: str = "made", reno: str = "reno") -> Path:
    """Nine runs that were done, one that crashed, one finding with a recording, one check that fails."""
    runs = [
        folders.run(
            case,
            1,
            {"goodput": goodput * 1e6, "rtt_p50": rtt / 1e3},
            stack__cc=reno if cc == "reno" else cc,
            queue__limit=limit,
        )
        for case, cc, limit, goodput, rtt in RUNS
    ]
    runs.append(folders.run("bbbb000005", 1, {}, outcome="crashed", stack__cc="cubic", queue__limit="4MB"))
    runs[-1]["message"] = "a bug in the data plane: index out of bounds"
    for run in runs:
        run["triples"] = run["triples"] | {"link.rate": "100Mbit"}
        if run["case"] == WATCHED:
            run["recording"] = f"recordings/{WATCHED}-1"
    folders.folder(path, runs)
    recording(path / "recordings" / f"{WATCHED}-1")
    check = {
        "metric": "goodput", "op": ">=", "value": 15e6, "limit": 15e6, "observed": 10e6, "holds": False,
        "subject": "cc=reno, limit=50KB", "why": "half of the link at least", "note": "",
    }  # fmt: skip
    index = json.loads((path / "result.json").read_text(encoding="utf-8"))
    index |= {
        "tcpassay": "0.1.0",
        "plan": {"name": name},
        "folder": "results/made",
        "status": "complete",
        "environment": {"cores": 2, "started": "2026-01-02T03:04:05+00:00"},
        "checks": [check, check | {"subject": "cc=cubic, limit=50KB", "observed": 60e6, "holds": True}],
    }
    (path / "result.json").write_text(json.dumps(index), encoding="utf-8")
    rows = (
        Row(7, 40 * MS, "sender", "flow.0", "timer_fire", "Rto", {"value_ns": 5}),
        Row(9, 55 * MS, "sender", "flow.0", "retransmit", "", {"seq": 3001}),
    )
    finding = Finding(
        "timeout-without-loss", Severity.WARNING, "timeout although nothing was lost", "sender", "flow.0", 40 * MS,
        60 * MS, 2, TEXT, rows, (3, 4), replay=REPLAY, case=WATCHED, seed=1,
    )  # fmt: skip
    write_findings(path, [finding])
    return path


def recording(path: Path) -> None:
    """100 ms of one flow in intervals of 10 ms: 1 MB/s, then silence from 40 to 60 ms that a timer ends."""
    path.mkdir(parents=True)
    octets = [10e3, 10e3, 10e3, 10e3, 0.0, 0.0, 20e3, 10e3, 10e3, 10e3]
    flow = pl.DataFrame(
        {
            "time_ns": [n * 10 * MS for n in range(10)],
            "entity": "flow.0",
            "wire_bytes": octets,
            "cwnd_bytes": [10e3 * (n + 1) for n in range(10)],
            "srtt_ns": [8e6] * 10,
        }
    )
    queue = pl.DataFrame(
        {
            "time_ns": [n * 10 * MS for n in range(10)],
            "entity": "queue.bottleneck",
            "max_backlog_bytes": [3e3 * n for n in range(10)],
            "marks": [0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0],
            "drops": [0.0] * 10,
        }
    )
    series = pl.concat([flow, queue], how="diagonal")
    series.write_parquet(path / "series.parquet")
    rows: list[dict[str, Any]] = []
    for n in range(4):
        rows += [
            {"time_ns": n * 10 * MS, "kind": "out", "seq": 1 + 1000 * n, "len": 1000},
            {"time_ns": n * 10 * MS + 8 * MS, "kind": "in", "seq": 1, "len": 0, "ack": 1001 + 1000 * n},
            {"time_ns": n * 10 * MS + 8 * MS, "kind": "rtt", "value_ns": (8 + n) * MS},
        ]
    rows += [
        {"time_ns": 60 * MS, "kind": "timer_fire", "why": "Rto"},
        {"time_ns": 60 * MS, "kind": "retransmit", "seq": 3001, "len": 1000},
    ]
    columns = ("seq", "ack", "len", "value_ns")
    events = pl.DataFrame(
        [{"host": 0, "flow": 0, "why": "", **dict.fromkeys(columns), **row} for row in rows],
        schema_overrides=dict.fromkeys(columns, pl.Int64),
    )
    events.write_parquet(path / "events.parquet")
    latency = pl.DataFrame(
        {
            "kind": ["rtt"] * 3,
            "entity": ["flow.0"] * 3,
            "value_ns": [8 * MS, 9 * MS, 40 * MS],
            "count": [2, 1, 1],
        }
    )
    latency.write_parquet(path / "latency.parquet")
    index = {
        "format": 2,
        "files": {
            "latency.parquet": {"rows": 3},
            "series.parquet": {"rows": len(series)},
            "events.parquet": {"rows": len(events)},
        },
        "series_interval_ns": 10 * MS,
        "header": {
            "bottleneck": 0, "duration_ns": 100 * MS, "complete": True,
            "case": [{"entity": "", "parameter": "stack.cc", "value": "reno"}],
        },
        "hosts": ["sender", "receiver"],
        "flows": [
            {
                "name": "flow.0", "from": 0, "to": 1, "cc": "reno", "tcp": {"timeouts": 1, "recoveries": 0},
                "counters": {"sent_bytes": 5000, "read_bytes": 4000, "retransmitted_bytes": 1000, "ce_packets": 0},
            }
        ],
        "devices": [{"name": "queue.bottleneck", "rate_bps": 16_000_000, "counters": {"drops": 0}}],
        "environment": [
            {"entity": "path", "property": "rtt", "unit": "ns", "asked": 8_000_000.0, "measured": 8_100_000.0}
        ],
    }  # fmt: skip
    sealed.recording(path, index)


def with_kernel_coverage(made: Path) -> Path:
    """The same results with two runs on a kernel with counters."""
    file = File(
        "net/ipv4/tcp_input.c",
        (Function("tcp_ack", 1, 4),),
        (1, 2, 3, 4),
        (Branch(2, "tcp_ack", 0), Branch(2, "tcp_ack", 1)),
    )
    catalogue = Catalogue((file,))
    (made / "coverage").mkdir()
    (made / "coverage" / "cov.json").write_text(catalogue.as_text(), encoding="utf-8")
    index = json.loads((made / "result.json").read_text(encoding="utf-8"))
    ones = [1 << catalogue.start(file, kind) for kind in ("functions", "branches", "lines")]
    for run, lines in zip(index["runs"], (0b011, 0b101), strict=False):
        run["substrate"] = "kernel:cov"
        run["covered"] = catalogue.encode(ones[0] | ones[1] | lines * ones[2])
    (made / "result.json").write_text(json.dumps(index), encoding="utf-8")
    return made
