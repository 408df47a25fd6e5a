"""Cases on the kernel of this machine. Rates are low, so that a busy machine can keep them (see `control`)."""

import ctypes
import json
import mmap
import os
import struct
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from control import passes, recording, rows, run_passes
from tcpassay.substrate import host
from tcpassay.substrate.agent import agent_program

SLOW = {
    "link.rate": "50Mbit",
    "link.delay": "0s",
    "nic.tso": True,
    "nic.gro": True,
    "stack.cc": "cubic",
    "app.duration": "500ms",
}
SHAPED = SLOW | {
    "link.rate": "1Gbit",
    "nic.gso_max": "6KB",
    "queue.kind": "htb",
    "queue.rate": "100Mbit",
    "queue.ecn_threshold": "30KB",
    "stack.ecn": "classic",
    "app.flows": 2,
    "app.duration": "1s",
}


def go(folder: Path, triples: dict[str, Any], **collect: Any) -> dict[str, Any]:
    asked = {"series": "10ms", "warmup": "0s", "deliveries": False, "events": False, "packets": False}
    answer = host.run_case(
        triples=triples,
        seed=1,
        base=str(folder.parent),
        collect=asked | collect,
        folder=str(folder),
        quiet_s=5.0,
    )
    return asdict(answer)


def test_a_flow_fills_the_link_and_the_path_and_the_machine_are_in_the_recording(tmp_path: Path) -> None:
    def always(folder: Path, _: dict[str, Any]) -> None:
        assert recording(folder)["header"]["substrate"] == "host"
        seen = rows(folder)
        assert seen["queue.bottleneck", "rate"] == pytest.approx(50e6, rel=0.05)
        assert seen["path", "mtu"] == 1500
        assert seen["path", "rtt"] > 0
        assert 0 <= seen["machine", "busy_before"] <= 1
        assert seen["machine", "agent_cpu"] > 0
        assert seen["machine", "load"] >= 0
        # TCP_INFO at every tick, and beside it what inet_diag tells of sockets.
        columns = set(pl.read_parquet_schema(folder / "series.parquet"))
        assert {"cwnd_bytes", "send_queue_bytes", "receive_queue_bytes", "send_memory_bytes"} <= columns

    def expect(folder: Path, answer: dict[str, Any]) -> None:
        # 1448 of 1500 bytes are payload; slow start is missing. A super-segment passes as a whole: 10 ms of this rate.
        assert 0.85 * 48.3e6 < answer["metrics"]["goodput"] < 1.03 * 48.3e6
        assert rows(folder)["path", "rtt"] < 1_000_000
        assert recording(folder)["counters"]["run"]["tap_lost"] == 0
        assert recording(folder)["counters"]["sender"]["TcpOutSegs"] > 100
        assert (folder / "packets.pcapng").stat().st_size > 20_000
        assert rows(folder)["machine", "agent_cpu"] < 1

    run_passes(tmp_path, lambda folder: go(folder, SLOW, packets=True), expect, always)


def test_requests_are_answered_over_a_dumbbell_without_segmentation(tmp_path: Path) -> None:
    case = SLOW | {
        "topology": "dumbbell:2",
        "app.workload": "rpc",
        "app.nodelay": True,
        "nic.tso": False,
        "nic.gro": False,
    }

    def always(_: Path, answer: dict[str, Any]) -> None:
        if answer["metrics"]["completions"]:
            assert answer["metrics"]["completion_p50"] > 0.0016

    def expect(_: Path, answer: dict[str, Any]) -> None:
        # A request of 10 KB takes 1.7 ms of the link, which two pairs share.
        assert answer["metrics"]["completions"] > 50
        assert answer["metrics"]["completion_p50"] < 0.05

    run_passes(tmp_path, lambda folder: go(folder, case), expect, always)


@pytest.mark.usefixtures("bpf")
@pytest.mark.parametrize("mark", ["data", "ack"])
def test_a_step_of_the_real_backlog_keeps_the_queue_of_a_shaper_short(tmp_path: Path, mark: str) -> None:

    def always(folder: Path, _: dict[str, Any]) -> None:
        # Every ACK that was written to has the right checksum, and CE is on data alone.
        counters = recording(folder)["counters"]
        assert counters["sender"].get("TcpInCsumErrors", 0) == 0
        if mark == "ack":
            assert counters["receiver"].get("IpExtInCEPkts", 0) == 0

    def unmarked(folder: Path, _: dict[str, Any]) -> None:
        # The regime: without marks far more than the threshold waits.
        off = recording(folder)["devices"][0]["counters"]
        assert off["max_backlog_bytes"] > 300_000

    free, _ = run_passes(tmp_path / "off", lambda folder: go(folder, SHAPED), unmarked)
    off = recording(free)["devices"][0]["counters"]
    assert off["marks"] == 0

    def expect(folder: Path, answer: dict[str, Any]) -> None:
        on = recording(folder)["devices"][0]["counters"]
        assert on["marks"] > 20
        assert on["max_backlog_bytes"] < 0.5 * off["max_backlog_bytes"]
        assert answer["metrics"]["throughput"] > 80e6
        assert answer["metrics"]["lost"] == 0
        if mark == "data":
            assert recording(folder)["counters"]["receiver"]["IpExtInCEPkts"] > 20

    run_passes(tmp_path / "on", lambda folder: go(folder, SHAPED | {"queue.ecn_mark": mark}), expect, always)


TRACING = Path("/sys/kernel/tracing")


def tracing() -> dict[str, Any]:
    """The switches, the buffer and the instances of this machine's tracing."""
    names = ("tracing_on", "current_tracer", "trace_clock", "buffer_size_kb", "set_event", "events/enable")
    read = {name: (TRACING / name).read_text(encoding="utf-8") for name in names if (TRACING / name).exists()}
    there = TRACING / "instances"
    return read | {"instances": sorted(one.name for one in there.iterdir()) if there.exists() else []}


class Samples:
    """An event's records in rings of this process, one for each processor, opened without the agent."""

    PAGE = 4096
    PAGES = 64
    HEAD = 1024
    SAMPLE = 9

    def __init__(self, event: str) -> None:
        self._rings = []
        for processor in sorted(os.sched_getaffinity(0)):
            counter = self._open(event, processor)
            if counter is not None:
                self._rings.append((counter, mmap.mmap(counter, self.PAGE * (1 + self.PAGES))))

    @staticmethod
    def _open(event: str, processor: int) -> int | None:
        show = f"mountpoint -q {TRACING} || mount -t tracefs none {TRACING}; cat {TRACING / 'events' / event / 'id'}"
        found = subprocess.run(
            ["unshare", "-m", "sh", "-c", show], capture_output=True, text=True, check=False
        )
        numbers = {"x86_64": 298, "aarch64": 241}
        if found.returncode or os.uname().machine not in numbers:
            return None
        # struct perf_event_attr: PERF_TYPE_TRACEPOINT, its size, the event, each one; PERF_SAMPLE_RAW.
        attributes = struct.pack("=IIQQQ", 2, 112, int(found.stdout), 1, 1 << 10).ljust(112, b"\0")
        made: int = ctypes.CDLL(None).syscall(numbers[os.uname().machine], attributes, -1, processor, -1, 8)
        return made if made >= 0 else None

    def __bool__(self) -> bool:
        return bool(self._rings)

    def missing(self) -> int:
        """The number of events that the kernel has counted and not recorded."""
        missing = 0
        for counter, ring in self._rings:
            missing += int.from_bytes(os.read(counter, 8), sys.byteorder)
            (head,) = struct.unpack_from("=Q", ring, self.HEAD)
            assert head < self.PAGE * self.PAGES
            at = 0
            while at < head:
                kind, _, length = struct.unpack_from("=IHH", ring, self.PAGE + at)
                missing -= kind == self.SAMPLE
                at += length
        return missing

    def close(self) -> None:
        for counter, ring in self._rings:
            ring.close()
            os.close(counter)


def test_the_log_holds_what_the_kernel_traces_and_the_machines_own_tracing_is_left_alone(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    control = Samples("tcp/tcp_cong_state_set")
    request.addfinalizer(control.close)
    if not control:
        pytest.skip(
            "this kernel has no trace event tcp_cong_state_set (Linux 5.19), or perf_event_open(2) is not allowed"
        )
    before = tracing()
    # Slow start overflows a queue of 8 ms, and avoidance does so again several times in two seconds.
    case = SLOW | {"stack.cc": "reno", "nic.gso_max": "3KB", "queue.limit": "50KB", "app.duration": "2s"}

    def always(folder: Path, _: dict[str, Any]) -> None:
        counters = recording(folder)["counters"]["run"]
        traced = {
            name for name in ("congestion", "windows", "retransmits", "states") if counters[f"traced_{name}"]
        }
        # A kind is absent only if the kernel did not record all events that it counted.
        assert (len(traced) == 4) == ("trace_unrecorded" not in counters)
        log = pl.read_parquet(folder / "events.parquet").filter(pl.col("flow") == 0)
        assert log["time_ns"].is_sorted()
        reasons = set(log.filter(pl.col("kind") == "retransmit")["why"])
        assert reasons <= {"recovery", "timeout", "tail loss probe", ""}
        assert "" not in reasons or not {"congestion", "retransmits"} <= traced
        of = {"congestion": "congestion", "window": "windows", "state": "states"}
        assert {of[kind] for kind in log["kind"].unique() if kind in of} <= traced

    def expect(folder: Path, answer: dict[str, Any]) -> None:
        assert answer["metrics"]["lost"] > 0
        counters = recording(folder)["counters"]
        log = pl.read_parquet(folder / "events.parquet").filter(pl.col("flow") == 0)
        if counters["run"]["traced_states"]:
            assert log.filter(pl.col("kind") == "state")["why"][0] == "SynSent->Established"
        if counters["run"]["traced_windows"]:
            assert log.filter(pl.col("kind") == "window")["cwnd_bytes"].max() > 50_000  # type: ignore[operator]
        if not counters["run"]["traced_congestion"]:
            # A ring that this process opened for the same event lacks records, too.
            assert control.missing() > 0
            assert answer["metrics"]["recoveries"] is None
            return
        # No event is lost: the kernel has counted as many recoveries. One may begin between the end of the trace and
        # the read of its counters.
        counted = counters["sender"].get("TcpExtTCPSackRecovery", 0)
        assert counted - 1 <= answer["metrics"]["recoveries"] <= counted
        assert counted > 3
        moves = log.filter(pl.col("kind") == "congestion")["why"].to_list()
        assert any("->Recovery: kernel" in why or "->Loss: kernel" in why for why in moves)
        assert log.filter(pl.col("kind") == "retransmit").height > 0

    run_passes(tmp_path, lambda folder: go(folder, case, events=True), expect, always)
    assert tracing() == before


def test_without_taps_goodput_is_there_and_throughput_is_null(tmp_path: Path) -> None:
    def always(folder: Path, answer: dict[str, Any]) -> None:
        metrics = answer["metrics"]
        assert metrics["goodput"] > 0
        assert metrics["cwnd_mean"] > 0
        assert {metrics[name] for name in ("throughput", "retransmissions", "rtt_p50", "one_way_p50")} == {
            None
        }
        index = recording(folder)
        assert "tap_lost" not in index["counters"]["run"]
        assert {flow["counters"]["sent_packets"] for flow in index["flows"]} == {None}
        # The path was probed all the same.
        assert rows(folder)["path", "mtu"] == 1500

    run_passes(tmp_path, lambda folder: go(folder, SLOW, taps=False), lambda _folder, _answer: None, always)


def test_a_second_run_waits_for_the_first(tmp_path: Path) -> None:
    class Both(threading.Thread):
        def __init__(self, folder: Path) -> None:
            super().__init__()
            self.folder, self.answer, self.ended = folder, {}, 0.0

        def run(self) -> None:
            self.answer = go(self.folder, SLOW)
            self.ended = time.monotonic()

    def run(attempt: int) -> tuple[float, list[Both]]:
        began = time.monotonic()
        both = [Both(tmp_path / f"{name}{attempt}") for name in "ab"]
        for one in both:
            one.start()
        for one in both:
            one.join()
        assert {one.answer["outcome"] for one in both} <= {"done", "path"}, both[0].answer
        return began, both

    def expect(made: tuple[float, list[Both]]) -> None:
        assert [one.answer["outcome"] for one in made[1]] == ["done", "done"], made[1][0].answer

    began, both = passes(run, expect)
    # Each takes half a second, one of them after the other's.
    assert max(one.ended for one in both) - began > 1.0


def test_what_this_kernel_cannot_do_is_refused_with_the_reason(tmp_path: Path) -> None:
    answer = go(tmp_path / "a", SLOW | {"link.ack_thinning": 3})
    assert answer["outcome"] == "refused"
    assert "substrates that do are model, kernel" in answer["message"]
    answer = go(tmp_path / "b", SLOW | {"link.loss": "1%"})
    if answer["outcome"] not in {"done", "path"}:
        assert "`link.loss`" in answer["message"]
        assert "this kernel has no netem" in answer["message"]


def test_without_root_the_message_names_the_substrates_that_work() -> None:
    # The agent may be in a folder that other users cannot read.
    with agent_program().open("rb") as program:
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--clear-groups", "--", f"/dev/fd/{program.fileno()}", "host"],
            input=json.dumps({"triples": {}, "base": "/"}),
            pass_fds=[program.fileno()],
            capture_output=True,
            text=True,
            check=False,
        )
    answer = json.loads(done.stdout)
    assert answer["ended"] == "failed"
    assert "needs root" in answer["message"]
    assert "`kernel` and `model` do not" in answer["message"]
