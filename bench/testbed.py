"""The costs of testbeds: time per case beside the traffic, differences of the starts, and memory of the controller.

The hosts are network namespaces of this machine with an sshd each, so that all agents share its processors; it needs
root and openssh-server. It exits with 1 if a figure is above its limit.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import agents
import beds
import testbeds
from patience import until

MOST_S: Final = 0.5
"""Time per case beside the traffic."""
MOST_SKEW_S: Final = 0.001
MOST_MB: Final = 300.0
TRAFFIC_S: Final = 0.3
CASES: Final = 8
PAIRS: Final = 8
"""Sixteen agents at the ends, and that of the router."""


def plan(testbed: testbeds.Testbed, folder: Path, topology: str, seeds: int, duration: float) -> Path:
    """A plan of one case with some seeds."""
    text = beds.PLAN.replace(
        "oracles", f'keep.recordings = "all"\nseeds = {list(range(1, seeds + 1))}\noracles'
    )
    text = text.replace('"pair"', f'"{topology}"').replace('"app.flows" = 2', '"app.flows" = 1')
    return beds.plan(testbed, folder, f"{round(1000 * duration)}ms", text)


def took(testbed: testbeds.Testbed, folder: Path, topology: str, seeds: int) -> float:
    """The seconds that the command of a plan takes."""
    folder.mkdir()
    begun = time.monotonic()
    done = beds.tcpassay(
        testbed, "run", str(plan(testbed, folder, topology, seeds, TRAFFIC_S)), "--out", str(folder / "out")
    )
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return time.monotonic() - begun


def beside(testbed: testbeds.Testbed, folder: Path, topology: str) -> float:
    """Seconds per case in addition to its traffic, without connecting and reading the plan."""
    folder.mkdir()
    # The first connection copies the agent.
    took(testbed, folder / "first", topology, 1)
    one = took(testbed, folder / "one", topology, 1)
    more = took(testbed, folder / "more", topology, 1 + CASES)
    return (more - one) / CASES - TRAFFIC_S


def recordings(folder: Path) -> Iterator[dict[tuple[str, str], float]]:
    """The measured rows of the environment of each recording."""
    for place in sorted(folder.rglob("recording.json")):
        rows = json.loads(place.read_text(encoding="utf-8"))["environment"]
        yield {(row["entity"], row["property"]): row["measured"] for row in rows}


def skews(folder: Path, names: Sequence[str]) -> list[float]:
    """For each run the time between the first and the last start, in seconds.

    All hosts have one clock: the estimated offset of a host is the error of its start.
    """
    return [
        max(starts) - min(starts)
        for rows in recordings(folder)
        if (
            starts := [
                rows[f"machine.{name}", "start"] + rows[f"clock.{name}", "offset"] / 1e9 for name in names
            ]
        )
    ]


def memory(testbed: testbeds.Testbed, folder: Path, topology: str, hosts: int) -> tuple[float, float]:
    """The memory of the controller's processes during a run, and that of its processes of `ssh`, in MB."""
    folder.mkdir()
    process = beds.start(testbed, plan(testbed, folder, topology, 1, 60), folder / "out")
    beds.until_running(testbed, process, hosts)
    sizes = {True: 0.0, False: 0.0}
    for one in agents.members(testbed.namespaces("control")):
        name = (agents.words(one) or [b""])[0]
        if one != testbed.first["control"]:
            sizes[name == b"ssh"] += proportional(one)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    until(lambda: not testbed.serving(), "the agents end")
    return sizes[False], sizes[True]


def proportional(process: int) -> float:
    """The memory of a process in MB; shared pages count in proportion (`Pss` of proc(5))."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1000


def main() -> int:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="senders, and as many receivers")
    pairs = parser.parse_args().pairs
    if why := testbeds.lacking():
        raise SystemExit(f"no testbed can be made: {why}")
    good = True

    def tell(what: str, value: float, unit: str, most: float) -> None:
        nonlocal good
        good = good and value <= most
        print(
            f"{what}: {value:.3g} {unit} (limit {most:g} {unit}){'' if value <= most else '  ABOVE'}",
            flush=True,
        )

    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} processors, load {load:.1f}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "testbed").mkdir()
        with testbeds.testbed(folder / "testbed", beds.ROLES, beds.LINKS) as testbed:
            tell(
                "time per case beside the traffic, 3 hosts",
                beside(testbed, folder / "three", "pair"),
                "s",
                MOST_S,
            )
        roles = {f"s{n}": "sender" for n in range(pairs)} | {f"d{n}": "receiver" for n in range(pairs)}
        links = [(name, "r") if role == "sender" else ("r", name) for name, role in roles.items()]
        (folder / "large").mkdir()
        with testbeds.testbed(folder / "large", {**roles, "r": "router"}, links) as testbed:
            topology, hosts = f"dumbbell:{pairs}", 2 * pairs + 1
            held = memory(testbed, folder / "held", topology, hosts)
            tell(f"memory of the controller, {hosts} agents", held[0], "MB", MOST_MB)
            tell(f"memory of the controller with its {hosts} ssh", sum(held), "MB", MOST_MB)
            case = beside(testbed, folder / "case", topology)
            tell(f"time per case beside the traffic, {hosts} hosts", case, "s", MOST_S)
            found = skews(folder / "case" / "more", list(roles))
            what = f"difference of the starts, {2 * pairs} agents, median of {len(found)} runs"
            tell(what, 1e3 * statistics.median(found), "ms", 1e3 * MOST_SKEW_S)
            tell("the same, largest", 1e3 * max(found), "ms", 1e3 * MOST_SKEW_S)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
