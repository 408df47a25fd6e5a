"""Prints a checksum of the recording of each of some random cases, to compare two builds of the native module.

    python tools/recordings_digest.py --save cases.json > before    # with the first build
    python tools/recordings_digest.py --cases cases.json > after    # with the second one
    diff before after

A change that must not change behaviour changes no line. Without `--cases` the cases are drawn
from `--seed`: the profiles in turn, and for each case some parameters of the whole table with one of their levels. A
level that the data plane refuses for the case is omitted. Runs are short. Each recording has its event log, its
packets, its time series and its deliveries. A line holds the number of the case, the number of events, and the SHA-256
of all files.
"""

import argparse
import hashlib
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from tcpassay import _native
from tcpassay.plan.table import parameters

Triples = dict[str, Any]

COLLECT: dict[str, str | bool | None] = {
    "series": "10ms",
    "warmup": "0s",
    "deliveries": True,
    "events": True,
    "packets": True,
}
PROFILES = ("rfc", "linux", "linux-4.6", "freebsd", "freebsd-rack")
# A rate, and the virtual time that takes a part of a second there.
PATHS = (("10Mbit", "2s"), ("100Mbit", "400ms"), ("1Gbit", "60ms"))
DELAYS = ("50us", "1ms", "5ms", "20ms")
# Settings that cause losses; most levels of the table alone cause none.
DAMAGE: tuple[Triples, ...] = (
    {"link.loss": "1%"},
    {"link.loss": "5%", "app.flows": 3},
    {"link.loss_model": "gilbert-elliott:1%,25%"},
    {"link.loss_model": "list:100"},
    {"link.reorder": "1%:5"},
    {"link.jitter": "1ms"},
    {"link.duplicate": "1%", "link.ack_loss": "10%"},
    {"queue.limit": "30KB", "app.flows": 2},
    {"queue.kind": "red", "queue.ecn": "on", "stack.ecn": "classic"},
    {"queue.ecn_mark": "data", "stack.ecn": "dctcp"},
    {"queue.ecn_mark": "data", "stack.ecn": "accurate"},
)
# Given by each case itself, or too long for a short run.
FIXED = {"stack.profile", "app.duration", "link.rate", "link.delay"}
LONG = {"racks:3x3", "100", "10Gbit"}


def draw(number: int, seed: int) -> Triples:
    """Case `number` of a sample."""
    rng = random.Random(f"{seed}-{number}")  # noqa: S311 - repeatable
    rate, duration = rng.choice(PATHS)
    case: Triples = {
        "stack.profile": PROFILES[number % len(PROFILES)],
        "stack.cc": rng.choice(("reno", "cubic", "dctcp", "vegas", "mvegas")),
        "link.rate": rate,
        "app.duration": duration,
        "link.delay": rng.choice(DELAYS),
    }
    if case["stack.cc"] == "dctcp":
        case["stack.ecn"] = "dctcp"
    damaged = case | rng.choice(DAMAGE)
    if number % 3 and _is_valid(damaged):
        case = damaged
    table = parameters()
    paths = sorted(set(table) - FIXED)
    stack = [path for path in paths if path.startswith(("stack.", "nic.", "app."))]
    for path in rng.sample(paths, 8) + rng.sample(stack, 8):
        levels = {*table[path].levels, *table[path].choices} - {table[path].default} - LONG
        if not levels:
            continue
        with_level = case | {path: rng.choice(sorted(levels))}
        if _is_valid(with_level):
            case = with_level
    return case


def _is_valid(case: Triples) -> bool:
    try:
        _native.check_case(case, "/")
    except _native.CaseError:
        return False
    return True


def digest(case: Triples, seed: int) -> str:
    """The number of events, and the SHA-256 of the names and bytes of all files of the recording."""
    with tempfile.TemporaryDirectory() as folder:
        told = json.loads(_native.run_case(case, seed, "/", COLLECT, folder + "/run"))
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        total = hashlib.sha256()
        for path in files:
            total.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"{told['events']} {total.hexdigest()}"


def main() -> None:
    """Draws or reads the cases, runs them, and prints a line for each."""
    parser = argparse.ArgumentParser(description="checksums of the recordings of random cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300, help="how many cases to draw")
    parser.add_argument("--cases", type=Path, help="a file with cases that --save wrote")
    parser.add_argument("--save", type=Path, help="write the cases to this file")
    options = parser.parse_args()
    if options.cases:
        cases = json.loads(options.cases.read_text(encoding="utf-8"))
    else:
        cases = [draw(number, options.seed) for number in range(options.count)]
    if options.save:
        options.save.write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")
    for number, case in enumerate(cases):
        print(f"{number:4} {digest(case, options.seed + number)}", flush=True)


if __name__ == "__main__":
    main()
