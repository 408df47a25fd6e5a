"""Limits the instructions per packet-hop in CI; instruction counts are reproducible, unlike times.

    python tools/instr_gate.py [--write] [--jobs N] [SCENARIO ...]

Runs the scenarios of `crates/python/examples/speed.rs` under callgrind for two lengths of virtual time; the difference
of instructions over the difference of hops is what a hop costs, without start-up. It fails if a scenario exceeds
`bench/instructions.json` by more than 3 % (the tolerance for other C libraries); `--write` stores the measured values
there instead. Without valgrind it prints a message and measures nothing.

The program has the profile `ci`, which contains debug assertions and is optimised crate by crate: a hop costs more
instructions than in the profile `release`, and what only the optimisation of the link changes is not seen. It saves the
build of all crates in a second profile. `make bench` measures times, with the profile `release`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = ROOT / "bench" / "instructions.json"
# Virtual time of the two runs: beyond slow start, and long enough for a stable mean.
LENGTHS = {"permutation": ("1ms", "4ms"), "hundred": ("20ms", "60ms"), "incast": ("20ms", "60ms")}
USUAL = ("20ms", "80ms")
TOLERANCE = 1.03
PROFILE = "ci"


def build() -> Path:
    """Builds the program of the scenarios, as `make test-rust` has built it: then nothing is compiled here."""
    features = subprocess.run(
        ["sh", "tools/bpf.sh"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    command = ["cargo", "build", "--locked", "--quiet", "--workspace", "--profile", PROFILE]
    command += ["--example", "speed", *features.stdout.split()]
    subprocess.run(command, cwd=ROOT, check=True)  # noqa: S603
    meta = ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"]
    told = subprocess.run(meta, cwd=ROOT, check=True, capture_output=True, text=True)  # noqa: S603
    return Path(json.loads(told.stdout)["target_directory"]) / PROFILE / "examples" / "speed"


def count(program: Path, scenario: str, length: str) -> tuple[int, int, int]:
    """Instructions, hops and data packets of one run."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(program)]
    command += [scenario, "--off", "--json", f"--seconds={length}"]
    # With this variable the program does not restart itself; callgrind would not follow the new process.
    plain = os.environ | {"GLIBC_TUNABLES": ""}
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=plain)  # noqa: S603
    counted = re.search(r"Collected : (\d+)", run.stderr)
    if counted is None:
        sys.exit(f"the output of callgrind contains no number of instructions:\n{run.stderr}")
    row = json.loads(run.stdout)
    return int(counted[1]), row["hops"], row["packets"]


def main() -> None:
    """Measures, prints, compares."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true", help="store the measured values as budgets")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many run at the same time")
    parser.add_argument("scenarios", nargs="*")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("Instructions per packet-hop: not gated, valgrind is not installed")
        return
    budgets: dict[str, float] = json.loads(BUDGETS.read_text(encoding="utf-8"))
    names = options.scenarios or list(budgets)
    program = build()
    measured: dict[str, float] = {}
    over = []
    print(f"{'scenario':14}{'per hop':>10}{'budget':>10}{'per data packet':>18}")
    wanted = [(name, length) for name in names for length in LENGTHS.get(name, USUAL)]
    # Instructions do not depend on what runs at the same time.
    with ThreadPoolExecutor(options.jobs) as pool:
        counts = list(pool.map(lambda one: count(program, *one), wanted))
    for name, (i1, h1, p1), (i2, h2, p2) in zip(names, counts[::2], counts[1::2], strict=True):
        measured[name] = round((i2 - i1) / (h2 - h1), 1)
        budget = budgets.get(name, 0.0)
        print(f"{name:14}{measured[name]:10.1f}{budget:10.1f}{(i2 - i1) / (p2 - p1):18.0f}")
        if measured[name] > budget * TOLERANCE:
            over.append(name)
    if options.write:
        BUDGETS.write_text(json.dumps(budgets | measured, indent=2) + "\n", encoding="utf-8")
    elif over:
        sys.exit(
            f"more instructions per packet-hop than {BUDGETS.relative_to(ROOT)} allows: {', '.join(over)}; "
            "reduce them, or give the reason in the commit message and run this with --write"
        )


if __name__ == "__main__":
    main()
