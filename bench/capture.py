"""Speed and memory of `tcpassay rtt` beside tshark and tcptrace, on a capture that this script writes.

    python bench/capture.py [--bytes N] [--headers] [--pairs N] [--file FILE]

The capture has sixteen bulk connections at their sender, each with a handshake, full segments, timestamps, an ACK for
every second segment and two thousandths of the segments sent again. `--headers` keeps 96 bytes of each packet, which
makes more packets of a file. The programs (`tshark -q -z conv,tcp`, `tcptrace`) run in alternation as whole commands,
after the file was read once; the bench prints medians. The goals: 20 times as fast as tshark; with `--headers` 2.5
times as fast as tcptrace, otherwise the time of `cat` and 0.3 s; less than 200 MB. Exit code 1: a goal is missed.
"""

import argparse
import math
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

CONNECTIONS = 16
PAYLOAD = 1448
FLIGHT = 10
"""Groups of two segments that a connection has outstanding."""
LOST = 500
"""Of so many groups of a connection one repeats the one before."""
STEP_NS = 24_000
"""Between two groups: 16 connections share about 1 Gbit/s."""
FASTER_THAN_TSHARK = 20.0
FASTER_THAN_TCPTRACE = 2.5
BEHIND_CAT = 0.3
MEMORY = 200 * 1000**2
START = 1_700_000_000


def frame(payload: int, kept: int, flags: int) -> bytes:
    """A record of a pcap file with Ethernet, IPv4, TCP and timestamps; addresses and numbers are filled in later."""
    size = 14 + 20 + 32 + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 2, size - 14, 0, 0x4000, 64, 6, 0, bytes(4), bytes(4))
    tcp = struct.pack(">HHIIBBHHH", 0, 0, 0, 0, 8 << 4, flags, 65_535, 0, 0) + b"\x01\x01\x08\x0a" + bytes(8)
    whole = bytes(12) + b"\x08\x00" + ip + tcp + bytes(payload)
    kept = min(kept, size)
    return struct.pack("<IIII", 0, 0, kept, size) + whole[:kept]


def put(block: np.ndarray, at: int, values: np.ndarray, order: str) -> None:
    """Writes a column of 32-bit numbers at byte `at` of each row."""
    block[:, at : at + 4] = values.astype(f"{order}u4").view(np.uint8).reshape(-1, 4)


def address(block: np.ndarray, record: int, connection: np.ndarray, *, back: bool) -> None:
    """Addresses and ports of a record at byte `record` of each row: 10.0.0.1 to 10.0.1.x."""
    ip = record + 16 + 14
    near = np.full(len(connection), 0x0A000001)
    far = 0x0A000100 + connection
    put(block, ip + 12, far if back else near, ">")
    put(block, ip + 16, near if back else far, ">")
    high, low = 40_000 + connection, np.full(len(connection), 5001)
    first, second = (low, high) if back else (high, low)
    put(block, ip + 20, first << 16 | second, ">")


def stamp(block: np.ndarray, record: int, at_ns: np.ndarray) -> None:
    """The time of a record."""
    put(block, record, START + at_ns // 10**9, "<")
    put(block, record + 4, at_ns % 10**9, "<")


def numbers(block: np.ndarray, record: int, seq: np.ndarray, ack: np.ndarray, ms: np.ndarray) -> None:
    """Sequence number, acknowledgement and timestamps of a record."""
    tcp = record + 16 + 14 + 20
    put(block, tcp + 4, seq, ">")
    put(block, tcp + 8, ack, ">")
    put(block, tcp + 24, ms, ">")
    put(block, tcp + 28, ms, ">")


def handshakes() -> bytes:
    """SYN, SYN-ACK and ACK of all connections."""
    connection = np.arange(CONNECTIONS)
    parts = []
    zero = np.zeros(CONNECTIONS, dtype=np.int64)
    steps = [
        (0x02, False, 999, 0, 0),
        (0x12, True, 999, 1000, 10_000_000),
        (0x10, False, 1000, 1000, 10_000_100),
    ]
    for flags, back, seq, ack, at in steps:
        block = np.tile(np.frombuffer(frame(0, 262_144, flags), np.uint8), (CONNECTIONS, 1))
        address(block, 0, connection, back=back)
        numbers(block, 0, zero + seq, zero + ack, zero + at // 10**6)
        stamp(block, 0, zero + at + connection)
        parts.append(block.tobytes())
    return b"".join(parts)


def write(file: Path, size: int, kept: int) -> int:
    """Writes a capture of about `size` bytes; returns the number of its packets."""
    data, ack = frame(PAYLOAD, kept, 0x18), frame(0, kept, 0x10)
    group = np.frombuffer(data + data + ack, np.uint8)
    groups = size // len(group)
    records = (0, len(data), 2 * len(data))
    with file.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1))
        out.write(handshakes())
        for begin in range(0, groups, 8192):
            rows = np.arange(begin, min(begin + 8192, groups), dtype=np.int64)
            block = np.tile(group, (len(rows), 1))
            connection, place = rows % CONNECTIONS, rows // CONNECTIONS
            # Every so often a group repeats the one before.
            place = place - place // LOST
            at = 11_000_000 + rows * STEP_NS
            begun = 1000 + 2 * PAYLOAD * place
            for number, record in enumerate(records):
                back = number == 2  # noqa: PLR2004 - two segments, then an ACK
                address(block, record, connection, back=back)
                stamp(block, record, at + 1000 * number)
                acked = 1000 + 2 * PAYLOAD * np.maximum(place - FLIGHT, 0)
                seq, acknowledges = (
                    (1000 + 0 * place, acked) if back else (begun + PAYLOAD * number, 1000 + 0 * place)
                )
                numbers(block, record, seq % 2**32, acknowledges % 2**32, at // 10**6)
            out.write(block.tobytes())
    return 3 * groups + 3 * CONNECTIONS


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    seconds: float
    cpu: float
    memory: int


# A process inherits the peak memory of the one that starts it, so that a small one must.
MEASURE = """\
import os, resource, subprocess, sys, time
begun = time.monotonic()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(time.monotonic() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
sys.exit(code)
"""


def cost(command: list[str]) -> Cost:
    """Runs a command and waits for it. Raises `CalledProcessError`."""
    measured = [sys.executable, "-I", "-c", MEASURE, *command]
    told = subprocess.run(measured, capture_output=True, text=True, check=True)  # noqa: S603
    seconds, cpu, memory = told.stdout.split()
    return Cost(float(seconds), float(cpu), int(memory))


def main() -> int:
    """Measures, prints, and compares with the goals."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bytes", type=int, default=10**9, help="size of the capture")
    parser.add_argument("--headers", action="store_true", help="keep 96 bytes of each packet")
    parser.add_argument("--pairs", type=int, default=3, help="how often each program runs")
    parser.add_argument("--file", type=Path, help="write the capture here and keep it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tcpassay-bench-") as scratch:
        file = options.file or Path(scratch) / "bulk.pcap"
        packets = write(file, options.bytes, 96 if options.headers else 262_144)
        small = Path(scratch) / "small.pcap"
        write(small, 0, 262_144)
        print(f"{file.stat().st_size / 1e6:.0f} MB, {packets} packets, {CONNECTIONS} connections")
        own = str(Path(sys.executable).with_name("tcpassay"))
        programs = {
            "cat": ["cat", str(file)],
            "start": [own, "rtt", str(small)],
            "tcpassay rtt": [own, "rtt", str(file)],
            "tshark": ["tshark", "-n", "-q", "-z", "conv,tcp", "-r", str(file)],
            "tcptrace": ["tcptrace", "-n", str(file)],
        }
        cost(["cat", str(file)])
        missing = [name for name, command in programs.items() if shutil.which(command[0]) is None]
        print("".join(f"{name}: not installed\n" for name in missing), end="")
        runs: dict[str, list[Cost]] = {name: [] for name in programs if name not in missing}
        for _ in range(options.pairs):
            for name, made in runs.items():
                made.append(cost(programs[name]))
    costs = {name: median(made) for name, made in runs.items()}
    for name, one in costs.items():
        print(f"{name:<14}{one.seconds:8.2f} s {one.cpu:8.2f} s CPU {one.memory / 1e6:8.0f} MB")
    print("(cat: reading the file alone; start: `tcpassay rtt` on a capture of handshakes)")
    ours, reading = costs["tcpassay rtt"], costs["cat"]
    limits = {"tshark": FASTER_THAN_TSHARK, "tcptrace": FASTER_THAN_TCPTRACE if options.headers else 0.0}
    missed = ours.memory > MEMORY
    for name in limits.keys() & costs.keys():
        one, wanted = costs[name], limits[name]
        ratios = [a.seconds / b.seconds for a, b in zip(runs[name], runs["tcpassay rtt"], strict=True)]
        faster = statistics.median(ratios)
        goal = f"goal: {wanted:g} times" if wanted else "no goal"
        print(
            f"{name} takes {faster:.2f} times as long ({goal}), {one.cpu / ours.cpu:.2f} times the CPU time"
        )
        missed |= faster < wanted
    behind = ours.seconds - reading.seconds
    wanted = math.inf if options.headers else BEHIND_CAT
    print(f"cat is {behind:.2f} s faster ({'no goal' if options.headers else f'goal: at most {wanted:g} s'})")
    return int(missed or behind > wanted)


def median(runs: list[Cost]) -> Cost:
    """The medians of each column."""
    return Cost(
        statistics.median(one.seconds for one in runs),
        statistics.median(one.cpu for one in runs),
        max(one.memory for one in runs),
    )


if __name__ == "__main__":
    sys.exit(main())
