"""Fault injection into `tcpassay`, with trials drawn from a seed: `make torture`.

    python tools/torture [--seed N] [--trials N] [--seconds S] [--only KIND] [--jobs N] [--keep]

Each kind of trial (`KINDS`, `SLOW`) does some trials, or as many as `--seconds` allow. What a trial does depends on its
seed alone; what is judged does not depend on the speed of the machine.
The exit code is 1 when a trial found a fault; each fault is printed with the command that repeats its trial.
"""

import argparse
import os
import pickle
import shutil
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from forked import preload
from trial import PLAN, Fault, Skip, Trial

KINDS = ("damage", "hostile", "owners", "kills", "signals", "disks", "inputs", "guests")
SLOW = ("fields", "links", "rays", "dictionaries", "experiments", "reports", "kernels")
"""Further kinds, which take longer; they are counted apart, so that the numbers of the others can be compared."""
SHARES = {
    "damage": 12,
    "hostile": 3,
    "owners": 1,
    "kills": 1,
    "signals": 1,
    "disks": 1,
    "inputs": 3,
    "guests": 2,
    "fields": 6,
    "links": 4,
    "rays": 2,
    "dictionaries": 2,
    "experiments": 1,
    "reports": 2,
    "kernels": 1,
}
"""Factors of `--trials`: cheap kinds of trials are repeated more often than expensive ones."""


def main() -> int:
    """Runs the trials and prints the faults that they found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument(
        "--trials", type=int, default=2, help="how many trials of the dearest kinds; others are multiples"
    )
    parser.add_argument("--seconds", type=float, help="go on with further seeds for so long")
    parser.add_argument("--only", choices=(*KINDS, *SLOW), action="append", help="only this kind of trials")
    parser.add_argument("--keep", action="store_true", help="keep the folders of trials that found a fault")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes do trials")
    options = parser.parse_args()
    ends = None if options.seconds is None else time.monotonic() + options.seconds
    preload(PLAN)
    with tempfile.TemporaryDirectory(prefix="tcpassay-torture-") as scratch:
        _ = Trial("calm", 0, 0, Path(scratch), Path(scratch)).calm  # once, before several processes need it
        shares = [_started(options, ends, Path(scratch), part) for part in range(options.jobs)]
        done = [_share_of(*share) for share in shares]
    faults, seed = sum(one.faults for one in done), max(one.seed for one in done)
    made = {kind: sum(one.made[kind] for one in done) for kind in done[0].made}
    skipped = {kind: why for one in done for kind, why in one.skipped.items()}
    told = _counted({kind: number for kind, number in made.items() if kind in KINDS})
    if slow := {kind: number for kind, number in made.items() if kind in SLOW}:
        told += f"; slow kinds: {_counted(slow)}"
    for kind, why in skipped.items():
        print(f"skipped: {kind}: {why}")
    print(
        f"torture: {told}; seeds {options.seed} to {seed - 1}; {faults or 'no'} fault{'' if faults == 1 else 's'}"
    )
    return 1 if faults else 0


@dataclass
class _Done:
    """What one process did."""

    made: dict[str, int]
    seed: int
    """The first seed that it has not finished."""
    faults: int = 0
    skipped: dict[str, str] = field(default_factory=dict)


def _started(options: argparse.Namespace, ends: float | None, scratch: Path, part: int) -> tuple[int, int]:
    """Starts the process that does one part of the trials; its id, and the pipe on which it tells what it did."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 1
        try:
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(_trials(options, ends, scratch, part), pipe)
            code = 0
        except BaseException:  # noqa: BLE001 - the parent sees the exit code
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)
    os.close(writer)
    return child, reader


def _share_of(child: int, reader: int) -> _Done:
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit("a process that did trials ended with an error")
    done: _Done = pickle.loads(said)  # noqa: S301 - of an own child
    return done


def _trials(options: argparse.Namespace, ends: float | None, scratch: Path, part: int) -> _Done:
    """Each `options.jobs`-th trial, beginning with number `part`."""
    done = _Done(dict.fromkeys(options.only or (*KINDS, *SLOW), 0), options.seed)
    turn = 0
    while ends is None or time.monotonic() < ends:
        for kind in done.made:
            for number in range(options.trials * SHARES[kind]):
                turn += 1
                if turn % options.jobs != part:
                    continue
                if ends is not None and time.monotonic() > ends:
                    break
                done.faults += _one(kind, done.seed, number, scratch, done.skipped, keep=options.keep)
                done.made[kind] += 1
        done.seed += 1
        if ends is None:
            break
    return done


def _counted(made: dict[str, int]) -> str:
    return f"{sum(made.values())} trials ({', '.join(f'{number} {kind}' for kind, number in made.items())})"


def _one(kind: str, seed: int, number: int, scratch: Path, skipped: dict[str, str], *, keep: bool) -> int:
    """Runs one trial; returns the number of faults that it found."""
    folder = scratch / f"{kind}-{seed}-{number}"
    folder.mkdir()
    trial = Trial(kind, seed, number, folder, scratch)
    found = 0
    try:
        __import__(kind).trial(trial)
    except Skip as why:
        skipped[kind] = str(why)
    except Fault as fault:
        found = 1
        print(f"FAULT {kind} seed {seed} trial {number}: {fault}", flush=True)
        print(f"    python tools/torture --only {kind} --seed {seed} --trials {number // SHARES[kind] + 1}")
        if keep:
            shutil.copytree(
                folder, Path(f"torture-{kind}-{seed}-{number}"), symlinks=True, dirs_exist_ok=True
            )
    shutil.rmtree(folder, ignore_errors=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
