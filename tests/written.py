"""Hand-written recordings for tests of oracles. Times are in milliseconds.

Host 0 (`sender`) sends flow 0 to host 1 (`receiver`), whose half of the connection is flow 1. Segments have 1000 bytes.
"""

from pathlib import Path
from typing import Any, Self

import polars as pl

import sealed
from tcpassay.judge import Finding, judge
from tcpassay.recording import schema

ACK, FIN = 16, 1
MSS = 1000


def ns(ms: float) -> int:
    return round(ms * 1_000_000)


def one(findings: list[Finding]) -> Finding:
    """The only finding."""
    assert len(findings) == 1, findings
    return findings[0]


def cited(finding: Finding) -> list[tuple[str, int]]:
    """The kind and the time in nanoseconds of each row that a finding cites."""
    return [(row.kind, row.time_ns) for row in finding.events]


class Written:
    """An event log that is being written."""

    def __init__(self, duration: float = 1000.0) -> None:
        self.duration = duration
        self.rows: list[dict[str, Any]] = []
        self.series: list[float] = []
        self.read = 0
        # Most of these logs leave out what profile `rfc` would add: DSACK blocks, and waits of a second.
        self.case = {"stack.cc": "reno", "stack.min_rto": "200ms", "stack.dsack": "off"}
        self.substrate = "model"
        self.counters: dict[str, dict[str, int]] = {}
        self.ended: tuple[int | None, int | None] = (None, None)
        self.cc = "reno"
        self.stacks: list[dict[str, Any]] = []

    def of_another_tcp(self, host: int) -> Self:
        """Marks a host whose TCP is not the model."""
        self.stacks.append({"host": host, "name": "other", "version": "1"})
        return self

    def of_a_kernel(self) -> Self:
        """Marks the log as that of a kernel with trace events."""
        self.substrate = "kernel"
        told = ("traced_congestion", "traced_windows", "traced_states")
        self.counters = {"run": {"tap_lost": 0} | dict.fromkeys(told, 1)}
        return self

    def event(self, at: float, host: int, kind: str, why: str = "", **values: Any) -> Self:
        self.rows.append({"time_ns": ns(at), "host": host, "flow": host, "kind": kind, "why": why, **values})
        return self

    def segment(  # noqa: PLR0913, PLR0917 - the fields of a segment
        self, at: float, host: int, kind: str, seq: int, length: int, ack: int, flags: int = ACK
    ) -> Self:
        return self.event(at, host, kind, seq=seq, len=length, ack=ack, flags=flags)

    def data(  # noqa: PLR0913 - likewise
        self,
        sent: float,
        came: float | None,
        seq: int,
        length: int = MSS,
        *,
        again: bool = False,
        flags: int = ACK,
    ) -> Self:
        """A data segment from the sender; `came` is None when it was lost."""
        self.segment(sent, 0, "retransmit" if again else "out", seq, length, 1, flags)
        return self if came is None else self.segment(came, 1, "in", seq, length, 1, flags)

    def ack(self, sent: float, came: float | None, ack: int) -> Self:
        """An ACK from the receiver; `came` is None when it was lost."""
        self.segment(sent, 1, "out", 1, 0, ack)
        return self if came is None else self.segment(came, 0, "in", 1, 0, ack)

    def fires(self, at: float, timer: str = "Rto") -> Self:
        return self.event(at, 0, "timer_fire", timer)

    def set_rto(self, at: float, due: float) -> Self:
        return self.event(at, 0, "timer_set", "Rto", value_ns=ns(due))

    def waits(self, at: float, until: float) -> Self:
        """The receiver delays an ACK."""
        return self.event(at, 1, "ack_delay", "Delay", value_ns=ns(until))

    def transfer(self, start: float, segments: int, rtt: float = 1.0, first: int = 1) -> Self:
        """A healthy exchange: each segment arrives after half a round trip and is acknowledged at once."""
        for i in range(segments):
            at, seq = start + i * rtt, first + i * MSS
            self.set_rto(at, at + 200).data(at, at + rtt / 2, seq).ack(at + rtt / 2, at + rtt, seq + MSS)
        return self

    def write(self, folder: Path, *, backwards: bool = False) -> Path:
        """Writes the recording; `backwards` puts the last row first."""
        folder.mkdir(parents=True, exist_ok=True)
        self.rows.sort(key=lambda row: row["time_ns"])
        rows = self.rows[::-1] if backwards else self.rows
        frame = pl.DataFrame(rows, schema=schema("events"), orient="row").with_columns(
            pl.col("ce").fill_null(value=False)
        )
        frame.write_parquet(folder / "events.parquet", compression="snappy")
        files = {"events.parquet": {"rows": len(frame)}}
        if self.series:
            wire = {"time_ns": range(len(self.series)), "entity": "flow.0", "wire_bytes": self.series}
            pl.DataFrame(wire).write_parquet(folder / "series.parquet", compression="snappy")
            files["series.parquet"] = {"rows": len(self.series)}
        flows = [
            {
                "name": f"flow.{i}",
                "connection": 0,
                "from": i,
                "to": 1 - i,
                "class": "bulk",
                "cc": self.cc,
                "mss_bytes": MSS,
                "start_ns": 0,
                "end_ns": self.ended[i],
                "counters": {"read_bytes": self.read if i == 0 else 0, "sent_bytes": 1 - i},
                "tcp": {},
            }
            for i in range(2)
        ]
        index = {
            "format": 2,
            "files": files,
            "series_interval_ns": None,
            "header": {
                "version": "0.1.0",
                "substrate": self.substrate,
                "seed": 1,
                "case": [
                    {"entity": "", "parameter": name, "value": value} for name, value in self.case.items()
                ],
                "replay": None,
                "duration_ns": ns(self.duration),
                "complete": True,
                "bottleneck": None,
                "stacks": self.stacks,
            },
            "environment": [],
            "counters": self.counters,
            "hosts": ["sender", "receiver"],
            "interfaces": [],
            "flows": flows,
            "devices": [],
        }
        sealed.recording(folder, index)
        return folder

    def judged(self, folder: Path, oracle: str) -> list[Finding]:
        return judge(self.write(folder), oracles=[oracle])
