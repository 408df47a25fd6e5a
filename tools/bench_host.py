"""Compares the traffic generators on this machine's kernel with other programs: iperf3, and a ping-pong in C.

Both run between two network namespaces connected by a veth pair without shaping. Needs root, iperf3 and gcc.
Usage: python tools/bench_host.py [ROUNDS]
"""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tcpassay.substrate import host

SECONDS = 2
SPACES = (f"tcpassay-bench-{os.getpid()}-a", f"tcpassay-bench-{os.getpid()}-b")
BULK = {"link.delay": "0s", "nic.tso": True, "stack.cc": "cubic", "app.duration": f"{SECONDS}s"}
RPC = BULK | {"app.workload": "rpc", "app.nodelay": True, "app.request": "100B", "app.response": "100B"}
COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": False, "packets": False}


def run(*command: str) -> str:
    """The output of a command. Raises an exception if the command fails."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603


@contextmanager
def spaces() -> Iterator[None]:
    """Creates two namespaces with a veth pair, with the settings that the agent uses."""
    made = []
    try:
        for space in SPACES:
            run("ip", "netns", "add", space)
            made.append(space)
        a, b = SPACES
        run("ip", "link", "add", "v0", "netns", a, "type", "veth", "peer", "name", "v0", "netns", b)
        for number, space in enumerate(SPACES, 1):
            run("ip", "-n", space, "addr", "add", f"10.0.0.{number}/24", "dev", "v0")
            run("ip", "-n", space, "link", "set", "v0", "up")
            values = ["net.ipv4.tcp_rmem=4096 131072 6291456", "net.ipv4.tcp_wmem=4096 16384 4194304"]
            run("ip", "netns", "exec", space, "sysctl", "-q", "-w", *values)
        yield
    finally:
        for space in made:
            run("ip", "netns", "del", space)


def ours(folder: str, triples: dict[str, object], metric: str, *, taps: bool, copy: bool = False) -> float:
    """A metric of a run of tcpassay."""
    collect, bare = COLLECT | {"taps": taps}, {"copy": copy}
    answer = host.run_case(
        triples=triples, seed=1, base=folder, collect=collect, folder=f"{folder}/run", quiet_s=0, bare=bare
    )
    shutil.rmtree(f"{folder}/run", ignore_errors=True)
    if answer.outcome != "done":
        sys.exit(f"{answer.outcome}: {answer.message}")
    return float(answer.metrics[metric] or 0)


def iperf3() -> float:
    """Goodput in bits a second, as the receiver saw it."""
    a, b = SPACES
    server = subprocess.Popen(  # noqa: S603
        ["ip", "netns", "exec", b, "iperf3", "-s", "-1"],  # noqa: S607
        stdout=subprocess.DEVNULL,
    )
    try:
        while not run("ip", "netns", "exec", b, "ss", "-Hltn", "sport = :5201"):
            pass
        flags = ("-c", "10.0.0.2", "-t", str(SECONDS), "-C", "cubic", "-J")
        answer = json.loads(run("ip", "netns", "exec", a, "iperf3", *flags))
    finally:
        server.wait()
    return float(answer["end"]["sum_received"]["bits_per_second"])


def ping_pong(program: str, how: str) -> float:
    """Median turn in seconds."""
    a, b = (f"/run/netns/{space}" for space in SPACES)
    said = run(program, how, a, b, "10.0.0.2", "7000", "100", "100", str(SECONDS))
    return int(said.split()[0]) / 1e9


def line(what: str, here: list[float], there: list[float], scale: float, unit: str) -> None:
    """One comparison."""
    mine, other = statistics.median(here), statistics.median(there)
    spread = ", ".join(f"{min(v) * scale:.4g}-{max(v) * scale:.4g}" for v in (here, there))
    print(
        f"{what}: {mine * scale:.4g} and {other * scale:.4g} {unit}, {mine / other - 1:+.1%} (of rounds: {spread})"
    )


def main() -> None:
    """Runs rounds of both programs alternately, and prints their medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    host.ready()
    # With the real-time priority of the agent, for both programs.
    with contextlib.suppress(PermissionError):  # the process may be a session leader already
        os.setsid()
    if (group := Path("/proc/self/autogroup")).exists():
        group.write_text("-20", encoding="ascii")
    os.setpriority(os.PRIO_PROCESS, 0, -20)
    for tool in ("iperf3", "gcc"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is not installed (Debian: apt-get install {tool})")
    made: dict[str, list[float]] = {}

    def note(what: str, value: float) -> None:
        made.setdefault(what, []).append(value)

    with tempfile.TemporaryDirectory(prefix="tcpassay-bench-") as folder, spaces():
        program = f"{folder}/pingpong"
        source = Path(__file__).parent.parent / "bench" / "host" / "pingpong.c"
        run("gcc", "-O2", "-std=gnu11", "-o", program, str(source))
        for _ in range(rounds):
            note("bulk", ours(folder, BULK, "goodput", taps=True))
            note("bulk that copies", ours(folder, BULK, "goodput", taps=True, copy=True))
            note("iperf3", iperf3())
            note("RPC", ours(folder, RPC, "completion_p50", taps=True))
            note("one", ping_pong(program, "one"))
            note("RPC without taps", ours(folder, RPC, "completion_p50", taps=False))
            note("two", ping_pong(program, "two"))
    print(f"median of {rounds} rounds of {SECONDS} s, load {os.getloadavg()[0]:.1f}")
    line("bulk and iperf3", made["bulk"], made["iperf3"], 1e-9, "Gbit/s")
    line(
        "bulk that copies what it reads, and iperf3", made["bulk that copies"], made["iperf3"], 1e-9, "Gbit/s"
    )
    for name in ("RPC", "RPC without taps"):
        line(f"{name} of 100 B and a ping-pong of one process", made[name], made["one"], 1e6, "us")
        line(f"{name} of 100 B and a ping-pong of two processes", made[name], made["two"], 1e6, "us")


if __name__ == "__main__":
    main()
