"""How well `judge --as` and `identify` do on captures whose stack is known; the figures are in docs/follow.md.

    .venv/bin/python tools/captures.py FOLDER --seed 7 --count 30          # the model, and other TCPs that are built
    .venv/bin/python tools/captures.py FOLDER --seed 7 --count 30 --kernel 6.1

Random cases run in FOLDER. Each end of each run is one capture, taken at this end. Of a profile's own stack every
difference is a false one; `identify` is right if it names the profile (perhaps beside others) or says that none fits.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tcpassay.captured.analyse import Limits
from tcpassay.captured.followed import Where, follow_capture
from tcpassay.captured.identify import STACKS, Answer, identify
from tcpassay.results import load

PLANS = Path(__file__).resolve().parent.parent / "plans"
OTHERS = ("smoltcp", "gvisor", "lwip", "pytcp")
POINTS = ("sender", "receiver")
MODEL = """
name = "{name}"
substrates = ["model"]
seeds = [{seed}]
oracles = false
[fixed]
"app.duration" = "3s"
{fixed}
[axes]
"link.rate" = ["10Mbit", "50Mbit"]
"link.delay" = ["100us", "3ms", "20ms", "90ms"]
[groups.traffic]
stream = {{}}
uploads = {{ "app.workload" = "rpc", "app.request" = "30KB", "app.response" = "100B" }}
downloads = {{ "app.workload" = "rpc", "app.request" = "1000B", "app.response" = "20KB", "app.think" = "1ms" }}
slow = {{ "app.read_rate" = "5Mbit" }}
[groups.damage]
none = {{}}
loss = {{ "link.loss" = "1%" }}
bursts = {{ "link.loss_model" = "gilbert-elliott:1%,40%", "link.reorder" = "2%:3" }}
copies = {{ "link.duplicate" = "1%" }}
"""
KERNEL = """
extends = "{plan}"
name = "{name}"
substrates = ["kernel:{kernel}"]
oracles = false
"""
REST = """
[strategy]
kind = "random"
count = {count}
seed = {seed}
[collect]
events = true
packets = true
[keep]
recordings = "all"
"""


@dataclass(frozen=True, slots=True)
class Label:
    """Runs whose stack is known."""

    name: str
    profile: str
    """The profile of the stack; empty if none has it."""
    plan: str


def labels(options: argparse.Namespace) -> Iterator[Label]:
    """The labelled plans."""
    rest = REST.format(count=options.count, seed=options.seed)

    def model(name: str, fixed: str) -> str:
        return MODEL.format(name=name, seed=options.seed, fixed=fixed) + rest

    if options.kernel:
        for plan in ("kernel-windows", "kernel-coverage"):
            text = KERNEL.format(plan=PLANS / f"{plan}.toml", name=plan, kernel=options.kernel)
            yield Label(plan, "linux-6.1", text + rest)
        return
    yield Label("linux", "linux-6.1", model("linux", '"stack.profile" = "linux"'))
    yield Label("freebsd", "freebsd", model("freebsd", '"stack.profile" = "freebsd"'))
    for other in OTHERS:
        yield Label(other, "", model(other, f'"stack.implementation" = "{other}"'))


def run(label: Label, folder: Path, jobs: int) -> Path | None:
    """Runs a plan; `None` if its TCP is not built."""
    plan, out = folder / f"{label.name}.toml", folder / label.name
    if not out.exists():
        plan.write_text(label.plan, encoding="utf-8")
        command = [sys.executable, "-m", "tcpassay", "run", str(plan), "--out", str(out), "--jobs", str(jobs)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
        if not out.exists():
            print(f"{label.name}: {done.stderr.strip().splitlines()[-1]}")
            return None
    return out


def main() -> None:
    """Runs, follows, identifies, and prints a line for each label."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--kernel", help="a kernel of the store, instead of the model")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for label in labels(options):
        if (out := run(label, options.folder, options.jobs)) is not None:
            report(label, out)


def report(label: Label, out: Path) -> None:
    """Follows each end of each run of a folder and prints what came of it."""
    results = load(out)
    answers: Counter[str] = Counter()
    followed = differing = 0
    for one in results.runs:
        file = results.place_of(one) / "packets.pcapng"
        for point in POINTS if one.get("recording") and file.exists() else ():
            made = follow_capture(file, STACKS, Where(point=point), Limits())
            found = identify(made)
            right = label.profile in found.names
            answers["right" if right else "wrong" if found.answer is Answer.FITS else str(found.answer)] += 1
            own = [end.profiles[label.profile] for end in made.ends if label.profile]
            followed += any(not outcome.is_refused for outcome in own)
            firsts = [outcome.first for outcome in own if outcome.first is not None]
            differing += bool(firsts)
            for first in firsts:
                print(f"  {file.parent.name} {point} frame {first.frame}: {first.cause}")
    told = f", {differing} of {followed} captures that are followed differ" if label.profile else ""
    print(f"{label.name}: identify: {json.dumps(dict(answers))}{told}", flush=True)


if __name__ == "__main__":
    main()
