"""Random cases without a planted fault: every finding of the oracles must have an explanation.

    python tools/quality/clean.py --cases 500 --profiles rfc linux --seed 1

Each case takes a few rows of the parameter table away from their defaults, at levels of the table. The output says
how often each finding came, with a case for each. The exit code is 1 when there is an error. With more settings per
case (`--settings 40`) rules meet that seldom meet otherwise.
"""

import argparse
import collections
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tcpassay import _native
from tcpassay.judge import judge_recording
from tcpassay.judge.log import MemoryLog
from tcpassay.recording import Recording

COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": True, "packets": False}
BASE = {
    "link.rate": ("20Mbit", "100Mbit"),
    "link.delay": ("200us", "2ms", "10ms"),
    "app.duration": ("600ms", "2s"),
}
"""Levels of the table would make most runs too long."""
MARKED = 0.7
"""Share of the cases with ECN in which a queue marks above a step."""
LEFT_OUT = {
    "app.start", "app.mix", "stack.cc_engine", "app.blocking", "link.rate", "link.delay", "app.duration",
    "stack.profile", "app.flow_size", "topology", "rack.hosts", "rack.uplink", "switch.buffers", "nic.rate",
    "queue.rate", "app.background", "link.pause",
}  # fmt: skip


def levels() -> dict[str, list[str]]:
    """Levels of the parameters that a random case may change."""
    rows = json.loads(_native.params_json())
    moved = {row["path"]: row["levels"] for row in rows if row["levels"] and row["path"] not in LEFT_OUT}
    # RFC 3782's exit from recovery may leave one segment, which is a finding of its own (RFC 6582 section 3.2).
    moved["stack.recovery_exit"].remove("rfc3782-less-careful")
    moved["app.flow_size"] = ["30KB", "500KB", "1MB"]
    moved["app.flows"] = ["2", "5"]
    moved["link.policer"] = ["50Mbit,100KB"]
    moved["app.read_rate"] = ["5Mbit", "50Mbit"]
    moved["app.rate"] = ["10Mbit"]
    moved["app.arrival"] = ["closed", "poisson:50/s"]
    moved["queue.limit"] = ["30KB", "100KB", "1000p"]
    return moved


def case(rng: random.Random, profile: str, known: dict[str, list[str]], most: int) -> dict[str, str]:
    """A random case that the model accepts, with at most `most` settings beside rate, delay, duration and profile."""
    while True:
        made: dict[str, str] = {path: rng.choice(values) for path, values in BASE.items()}
        made["stack.profile"] = profile
        for path in rng.sample(sorted(known), rng.randint(2, most)):
            made[path] = rng.choice(known[path])
        if made.get("stack.ecn", "off") != "off" and rng.random() < MARKED:
            made |= {"queue.ecn_mark": "data", "queue.kind": "fifo"}
        try:
            _native.check_case(made, ".")
        except _native.CaseError:
            continue
        return made


def findings(triples: dict[str, Any], seed: int, folder: Path) -> tuple[list[Any], float, float, int]:
    """What the oracles find, the CPU time of the run and of judging, and the number of rows of the log."""
    started = time.process_time()
    run = _native.run_held(triples, seed, ".", COLLECT)
    ran = time.process_time()
    recording = Recording.held(folder, run.index)
    found = judge_recording(recording, log=MemoryLog(run))
    return found, ran - started, time.process_time() - ran, len(run)


def main() -> None:
    """The command line; see the docstring of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--profiles", nargs="+", default=["rfc", "linux"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--settings", type=int, default=14, help="settings of a case at most")
    given = parser.parse_args()
    known = levels()
    rng = random.Random(given.seed)  # noqa: S311 - cases, no secrets
    count: collections.Counter[tuple[str, str, str]] = collections.Counter()
    example: dict[tuple[str, str, str], tuple[dict[str, str], str]] = {}
    spent, judged, errors, rows = 0.0, 0.0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.cases):
            triples = case(rng, given.profiles[number % len(given.profiles)], known, given.settings)
            found, ran, looked, logged = findings(triples, number, Path(folder))
            spent, judged, rows = spent + ran, judged + looked, rows + logged
            errors += any(one.severity == "error" for one in found)
            for key in {(one.severity.value, one.oracle, one.title) for one in found}:
                count[key] += 1
            for one in found:
                key = (one.severity.value, one.oracle, one.title)
                triples_text = {path: triples[path] for path in sorted(triples)}
                if len(str(triples_text)) < len(str(example.get(key, ("x" * 10_000,))[0])):
                    example[key] = (triples_text, f"seed {number}: {one.text}")
    for key, runs in sorted(count.items()):
        print(f"{runs:5} {' / '.join(key)}")
        print(f"      {example[key][0]}\n      {example[key][1]}")
    each = 1e9 * judged / max(rows, 1)
    print(
        f"{given.cases} cases, {errors} with an error; {spent:.1f} s of runs, {judged:.1f} s of judging, "
        f"{each:.0f} ns for each of {rows} rows"
    )
    sys.exit(1 if errors else 0)


if __name__ == "__main__":
    main()
