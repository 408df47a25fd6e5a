"""Recordings made by hand, in the layout of the data plane's."""

from pathlib import Path

import numpy as np
import polars as pl

import sealed

MS = 1_000_000


def recording(
    folder: Path,
    *,
    stalls: bool,
    drops: int = 0,
    slower: int = 1,
    closing_ms: int = 0,
) -> Path:
    """2 s of 2 Gbit/s for 250 ms, then, with `stalls`, 200 ms of silence that a timer ends, and so on.

    `slower` divides the rate. The series goes on for `closing_ms` after the run.
    """
    folder.mkdir(parents=True)
    dice = np.random.default_rng(1)
    duration_ms = 2000
    at = np.arange(0, duration_ms)
    sending = (at % 450 < 250) | (not stalls)
    wire = np.where(sending, 250_000 + dice.integers(-9_000, 1, len(at)), 0)
    wire = wire // slower
    ten = np.append(wire.reshape(-1, 10).sum(axis=1), np.zeros(closing_ms // 10))
    pl.DataFrame(
        {
            "time_ns": np.arange(len(ten)) * 10 * MS,
            "entity": "flow.0",
            "wire_bytes": ten.astype(float),
            "cwnd_bytes": 60e3 + 20e3 * (np.arange(len(ten)) % 7),
            "srtt_ns": 250e3,
            "max_backlog_bytes": [None] * len(ten),
        },
        schema_overrides={"max_backlog_bytes": pl.Float64},
    ).extend(
        pl.DataFrame(
            {
                "time_ns": np.arange(len(ten)) * 10 * MS,
                "entity": "queue.bottleneck",
                "wire_bytes": [None] * len(ten),
                "cwnd_bytes": [None] * len(ten),
                "srtt_ns": [None] * len(ten),
                "max_backlog_bytes": 30e3 + 5e3 * (np.arange(len(ten)) % 3),
            },
            schema_overrides={"wire_bytes": pl.Float64, "cwnd_bytes": pl.Float64, "srtt_ns": pl.Float64},
        )
    ).write_parquet(folder / "series.parquet")
    sent = at[sending]
    seq = np.cumsum(wire[sending]) - wire[sending]
    fires = list(range(450, duration_ms, 450)) if stalls else []
    rows = [
        (t * MS, "out", "", int(s), int(n), None) for t, s, n in zip(sent, seq, wire[sending], strict=True)
    ]
    rows += [(t * MS, "retransmit", "rto", int(seq[np.searchsorted(sent, t) - 1]), 1448, None) for t in fires]
    rows += [(t * MS - 1, "timer_fire", "Rto", None, None, None) for t in fires]
    rows += [
        (t * MS, "rtt", "", None, None, int(n))
        for t, n in zip(sent, dice.gamma(9, 30e3, len(sent)), strict=True)
    ]
    events = pl.DataFrame(
        rows,
        schema=["time_ns", "kind", "why", "seq", "len", "value_ns"],
        orient="row",
        infer_schema_length=None,
    ).with_columns(host=pl.lit(0), flow=pl.lit(0))
    events.sort("time_ns", maintain_order=True).write_parquet(folder / "events.parquet")
    values = np.sort(dice.gamma(9, 30e3, 400).astype(int))
    pl.DataFrame({"kind": "rtt", "entity": "flow.0", "value_ns": values, "count": 1}).write_parquet(
        folder / "latency.parquet"
    )
    index = {
        "format": 2,
        "files": {
            f"{name}.parquet": {"rows": rows}
            for name, rows in (("series", 2 * len(ten)), ("events", len(events)), ("latency", 400))
        },
        "hosts": [],
        "series_interval_ns": 10 * MS,
        "header": {"bottleneck": 0, "duration_ns": duration_ms * MS},
        "flows": [
            {"name": "flow.0", "counters": {"sent_bytes": int(wire.sum())}, "tcp": {"timeouts": len(fires)}}
        ],
        "devices": [{"name": "queue.bottleneck", "rate_bps": 2_000_000_000, "counters": {"drops": drops}}],
    }
    sealed.recording(folder, index)
    return folder
