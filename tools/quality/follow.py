"""Whether a build without a planted fault notices the fault when it follows the runs of a build with it.

    python tools/quality/follow.py --out out/quality

The faults are those of the model's TCP and its controllers (`plant.py`). Of each, cases run until three have other
packets than without the fault; these are followed by the same build with the fault switched off. A fault is found if
every one of them has a first difference. Faults of the network are not: following gets what arrived.
"""

import argparse
import json
import os
import re
import subprocess
from pathlib import Path

from plant import applied, copy, faults

TOLD = re.compile(r"^fault (\d+): (.*)$", re.MULTILINE)
CRATES = ("cc", "tcp")


def program(folder: Path) -> Path:
    """Builds the tests of following in a copy with every fault."""
    source = copy(folder, applied(faults()))
    command = ["cargo", "test", "--offline", "--no-run", "--message-format=json", "-p", "tcpassay-follow"]
    told = subprocess.run(  # noqa: S603
        [*command, "--test", "model", "--profile", "ci"],
        cwd=source,
        env=os.environ | {"CARGO_TARGET_DIR": str(folder / "target")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    messages = [json.loads(line) for line in told.stdout.splitlines()]
    return Path(next(one["executable"] for one in messages if one.get("executable")))


def main() -> None:
    """The command line; see the docstring of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="+", help="ids of faults")
    given = parser.parse_args()
    of_stack = [fault for fault in faults() if Path(fault.edits[0][0]).parts[1] in CRATES]
    chosen = [fault for fault in of_stack if not given.only or fault.id in given.only]
    given.out.mkdir(parents=True, exist_ok=True)
    ran = subprocess.run(  # noqa: S603
        [program(given.out.resolve()), "faults_that_change_packets", "--nocapture"],
        env=os.environ | {"TCPASSAY_FAULTS": " ".join(str(fault.number) for fault in chosen)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told = {int(number): words for number, words in TOLD.findall(ran.stdout)}
    changed = found = panics = 0
    for fault in chosen:
        numbers = told[fault.number].split()
        if not numbers[0].isdigit():
            panics += 1
            continue
        runs, differ = map(int, numbers)
        changed += runs > 0
        found += 0 < runs == differ
        if runs != differ:
            print(f"{fault.id}: {differ} of {runs} runs with other packets differ from the model")
    print(f"{len(chosen)} faults: {changed} change packets, {found} of these are found; {panics} end the run")


if __name__ == "__main__":
    main()
