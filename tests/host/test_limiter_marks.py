"""`tcpassay limiter` with real traffic: the other end counts as many marks as the limiter."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

NEAR, FAR = (f"tcpassay-marks-{os.getpid()}-{end}" for end in ("near", "far"))
# Accepts four connections and reads all their data; then prints that everything is read.
SINK = """
import socket, threading
listener = socket.create_server(("10.99.0.2", 7000))
def read(taken):
    while taken.recv(1 << 16): pass
print("ready", flush=True)
threads = [threading.Thread(target=read, args=listener.accept()[:1]) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
# Sends 3 MB on each of four connections in parallel: three seconds of the limiter's rate.
SOURCE = """
import socket, threading
def send():
    with socket.create_connection(("10.99.0.2", 7000)) as made:
        made.setsockopt(socket.IPPROTO_TCP, 13, b"cubic")
        made.sendall(bytes(3_000_000))
threads = [threading.Thread(target=send) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def inside(space: str, *command: str) -> str:
    done = subprocess.run(
        ["ip", "netns", "exec", space, *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done
    return done.stdout


def limiter(*words: str) -> Any:
    return json.loads(inside(NEAR, sys.executable, "-m", "tcpassay", "limiter", *words, "--json"))


@pytest.fixture
def ecn() -> int:
    """`net.ipv4.tcp_ecn` at both ends: asked for, and granted."""
    return 1


@pytest.fixture(autouse=True)
def _cable(bpf: None, ecn: int) -> Iterator[None]:  # noqa: ARG001 - it skips
    made = []
    try:
        for space in (NEAR, FAR):
            subprocess.run(["ip", "netns", "add", space], check=True)
            made.append(space)
        inside(NEAR, "ip", "link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", FAR)
        for space, address in ((NEAR, "10.99.0.1/24"), (FAR, "10.99.0.2/24")):
            inside(space, "ip", "addr", "add", address, "dev", "v0")
            inside(space, "ip", "link", "set", "v0", "up")
            inside(space, "sysctl", "-qw", f"net.ipv4.tcp_ecn={ecn}")
        yield
    finally:
        for space in made:
            subprocess.run(["ip", "netns", "del", space], check=True)


def counters(space: str) -> dict[str, int]:
    """What the kernel of an end has counted, in pairs of lines: names and values."""
    lines = inside(space, "cat", "/proc/net/netstat", "/proc/net/snmp").splitlines()
    found: dict[str, int] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        group, *keys = names.split()
        found |= {group[:-1] + key: int(value) for key, value in zip(keys, values.split()[1:], strict=True)}
    return found


def transfer() -> tuple[dict[str, int], dict[str, int]]:
    """Moves 12 MB from the near end to the far one; the counters of both."""
    far = ["ip", "netns", "exec", FAR, sys.executable, "-c", SINK]
    with subprocess.Popen(far, stdout=subprocess.PIPE, text=True) as sink:
        assert sink.stdout is not None
        assert sink.stdout.readline() == "ready\n"
        inside(NEAR, sys.executable, "-c", SOURCE)
        assert sink.wait(600) == 0
    return counters(NEAR), counters(FAR)


def applied(mark: str) -> None:
    limiter("apply", "v0", "--rate", "32Mbit", "--threshold", "15KB", "--mark", mark)


def test_data_sent_above_the_threshold_arrive_with_ce_and_the_marks_are_echoed_to_the_sender() -> None:
    applied("data")
    near, far = transfer()
    marks = limiter("show", "v0")["marks"]
    assert marks > 20, "the regime: the queue was above its threshold"
    # The limiter counts a super-segment once, the other end the packets in it; no mark is lost on a cable.
    assert far["IpExtInCEPkts"] >= marks
    assert near["IpExtInCEPkts"] == 0
    assert near["TcpExtTCPDeliveredCE"] > 0
    assert far["TcpInCsumErrors"] == near["TcpInCsumErrors"] == 0


def test_acks_that_come_back_while_much_waits_have_ece_and_right_checksums_and_data_have_no_ce() -> None:
    applied("ack")
    near, far = transfer()
    marks = limiter("show", "v0")["marks"]
    assert marks > 20, "the regime: the queue was above its threshold"
    assert near["TcpExtTCPDeliveredCE"] > 0, "the sender heard of congestion"
    assert far["IpExtInCEPkts"] == near["IpExtInCEPkts"] == 0, "although no packet met with it"
    # A receiver drops and counts packets with a wrong checksum.
    assert far["TcpInCsumErrors"] == near["TcpInCsumErrors"] == 0


@pytest.mark.parametrize("ecn", [0])
@pytest.mark.parametrize("mark", ["data", "ack"])
def test_connections_without_ecn_are_not_marked(mark: str) -> None:
    applied(mark)
    near, far = transfer()
    assert limiter("show", "v0")["sent_bytes"] > 12_000_000
    assert far["IpExtInCEPkts"] == near["IpExtInCEPkts"] == 0
    assert near["TcpExtTCPDeliveredCE"] == 0
