"""Measures the speed of other TCPs on the model: packets per second of CPU, of both ends and the network.

    python bench/stacks.py [--bytes N]

One flow over 100 Mbit/s with 10 ms of delay, with the TCP at both ends, without event log. CPU time is that of this
process and of its children. A TCP that has not been built is left out, and the output says so. The protocol costs what
`exec:` of smoltcp needs beyond smoltcp in the process.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from tcpassay import _native
from tcpassay.messages import METRICS_ONLY
from tcpassay.stacks.build import RECIPES, is_built

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = [
    "cargo",
    "build",
    "--release",
    "--locked",
    "--quiet",
    "-p",
    "tcpassay-stack",
    "--example",
    "adapter",
]
ADAPTER = ROOT / "target" / "release" / "examples" / "adapter"


def measured(implementation: str, size: int) -> tuple[int, float]:
    """Segments that both ends sent, and seconds of CPU."""
    before = os.times()
    triples = {
        "stack.implementation": implementation,
        "app.flow_size": f"{size}B",
        "app.duration": "600s",
        "link.rate": "100Mbit",
        "link.delay": "10ms",
    }
    command = implementation.removeprefix("exec:")
    ran = _native.run_held(triples, 1, ".", METRICS_ONLY, {command: {}})
    after = os.times()
    flows = json.loads(ran.index())["flows"]
    packets = sum(flow["tcp"]["segments_out"] for flow in flows if flow["tcp"]["segments_out"])
    spent = sum(getattr(after, name) - getattr(before, name) for name in ("user", "system"))
    children = sum(
        getattr(after, name) - getattr(before, name) for name in ("children_user", "children_system")
    )
    return packets, spent + children


def main() -> int:
    """Prints a line for each TCP."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=20_000_000, help="length of the flow")
    size = parser.parse_args().bytes
    subprocess.run(EXAMPLE, cwd=ROOT, check=True)  # noqa: S603 - an argument list of our own
    costs = {}
    for name in ["smoltcp", f"exec:{ADAPTER}", *RECIPES]:
        if name in RECIPES and not is_built(name):
            sys.stdout.write(f"{name}: not built\n")
            continue
        # PyTCP needs a thousand times the CPU of smoltcp.
        packets, seconds = measured(name, size // 50 if name == "pytcp" else size)
        costs[name] = seconds / packets
        label = "smoltcp as a process" if name.startswith("exec:") else name
        sys.stdout.write(f"{label}: {packets} packets, {packets / seconds:,.0f} a second of CPU\n")
    protocol = (costs[f"exec:{ADAPTER}"] - costs["smoltcp"]) * 1e6
    sys.stdout.write(f"the protocol: {protocol:.1f} us a packet (goal: 8)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
