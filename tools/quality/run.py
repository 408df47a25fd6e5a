"""Runs every planted fault with the cases of the shipped plans, until an oracle finds it: `make quality`.

    python tools/quality/plant.py --out out/quality && python tools/quality/run.py --build out/quality

A fault is found by a case when an oracle reports an error or a warning in it that it does not report without the fault,
or when the run fails: it panics, or uses more CPU time or memory than a run of the plan may. The table says how many
cases that takes, in the order of each strategy, and whether `tcpassay isolate` finds the cause of what the shipped plan
finds. What was measured is kept in `measured.json` of the build: a fault is measured again only when that file is
removed.
"""

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

from cause import cause
from findings import known_as
from plant import faults
from table import table

ROOT = Path(__file__).resolve().parents[2]
COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": True, "packets": False}
STRATEGIES = {
    "shipped": "",
    "2-way": '[strategy]\nkind = "t-way"\nstrength = 2\n',
    "3-way": '[strategy]\nkind = "t-way"\nstrength = 3\n',
    "random": '[strategy]\nkind = "random"\ncount = 300\n',
}
"""The shipped plans have strength 2, and more for families of factors. The others use the factors of the first one."""
PLANS = [ROOT / "plans" / f"{name}.toml" for name in ("coverage", "elements", "behaviours")]
MOST_SECONDS = 60
"""CPU time of a run."""
MOST_BYTES = 4 * 10**9
"""Memory of a run."""
Found = dict[tuple[str, str], tuple[int, int]]
"""Oracle and title of each finding: 0 for an error, 1 for a warning, and the time of the first one in nanoseconds."""


def triples(plan: Path) -> list[dict[str, Any]]:
    """The settings of each case of a plan that is to run."""
    import subprocess  # noqa: PLC0415 - only here

    command = [sys.executable, "-m", "tcpassay", "plan", str(plan), "--json"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
    return [case["triples"] for case in json.loads(told)["cases"] if case["expect"] == "done"]


def found(settings: dict[str, Any], seed: int, base: str) -> tuple[Found, str]:
    """The findings in a case, and a checksum of what the run measured and of its events in the network."""
    from tcpassay import _native  # noqa: PLC0415 - the build with the faults
    from tcpassay.judge import judge_recording  # noqa: PLC0415
    from tcpassay.judge.log import MemoryLog  # noqa: PLC0415
    from tcpassay.recording import Recording  # noqa: PLC0415

    run = _native.run_held(settings, seed, base, COLLECT)
    recording = Recording.held(Path(base), run.index)
    told: Found = {}
    for one in judge_recording(recording, log=MemoryLog(run)):
        if one.severity != "note":
            key = known_as(one.oracle, one.title)
            told[key] = min(told.get(key, (2, 0)), (int(one.severity != "error"), one.start_ns))
    return told, run.digest() + run.trace


def found_apart(settings: dict[str, Any], seed: int, base: str) -> tuple[Found, str]:
    """The findings in a case, or its failure; in a process of its own, because a fault may let a run go on for ever."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        # The runs of a plan have such limits, too.
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        try:
            told, checksum = found(settings, seed, base)
        except BaseException:  # noqa: BLE001 - a panic is none of Exception
            told, checksum = {("failed run", "panic"): (0, 0)}, ""
        with os.fdopen(writer, "w") as pipe:
            json.dump([[[*key, *value] for key, value in told.items()], checksum], pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if not text:
        return {("failed run", "more CPU time or memory than a run may use"): (0, 0)}, ""
    rows, checksum = json.loads(text)
    return {(oracle, title): (rank, start) for oracle, title, rank, start in rows}, checksum


class Search:
    """The cases of one strategy, and their findings without a fault."""

    def __init__(self, plans: list[Path], build: Path, strategy: str, most: int) -> None:
        from tcpassay import _native  # noqa: PLC0415 - the build with the faults

        every: list[dict[str, Any]] = []
        for plan in plans:
            own = build / f"{strategy}.toml"
            own.write_text(f'name = "{strategy}"\nextends = "{plan.resolve()}"\n{STRATEGIES[strategy]}')
            every += triples(own)
        self.of = len(every)
        self._cases = every[:most]
        self._base = str(build)
        self._clean: dict[int, tuple[Found, str]] = {}
        self._plant = _native.plant

    def first(self, fault: int) -> dict[str, Any]:
        """The first case in which a fault is found, with its new findings: errors first, then the earliest.

        `changed` is the number of the cases so far whose run differs from the run without the fault.
        """
        changed = 0
        for number, case in enumerate(self._cases):
            if number not in self._clean:
                self._plant(0)
                self._clean[number] = found(case, 1, self._base)
            self._plant(fault)
            told, checksum = found_apart(case, 1, self._base)
            clean, same = self._clean[number]
            changed += checksum != same
            if new := sorted(set(told) - set(clean), key=lambda key: (told[key], key)):
                by = [f"{oracle}: {title}" for oracle, title in new]
                return {"cases": number + 1, "of": self.of, "changed": changed, "by": by, "triples": case}
        tried = len(self._cases)
        return {"cases": None, "of": self.of, "changed": changed, "tried": tried, "by": [], "triples": None}


def main() -> None:
    """The command line; see the docstring of the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "out" / "quality")
    parser.add_argument("--plans", type=Path, nargs="+", default=PLANS)
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES), choices=list(STRATEGIES))
    parser.add_argument("--only", nargs="+", help="ids of faults")
    parser.add_argument("--most", type=int, default=400, help="cases of the other strategies at most")
    parser.add_argument(
        "--causes", action="store_true", help="isolate the cause of what the shipped plan finds"
    )
    parser.add_argument("--out", type=Path, help="write the table here")
    given = parser.parse_args()
    build = given.build.resolve()
    sys.path.insert(0, str(build / "package"))
    from tcpassay import _native  # noqa: PLC0415 - the build with the faults

    if not hasattr(_native, "plant"):
        sys.exit(f"error: {build} holds no build with the faults; run tools/quality/plant.py first")
    measured = build / "measured.json"
    rows: dict[str, dict[str, Any]] = json.loads(measured.read_text()) if measured.exists() else {}
    planted = [fault for fault in faults() if not given.only or fault.id in given.only]
    for strategy in given.strategies:
        search: Search | None = None
        for fault in planted:
            row = rows.setdefault(fault.id, {})
            if strategy in row:
                continue
            if search is None:
                shipped = strategy == "shipped"
                plans = given.plans if shipped else given.plans[:1]
                search = Search(plans, build, strategy, sys.maxsize if shipped else given.most)
            started = time.process_time()
            one = row[strategy] = search.first(fault.number)
            measured.write_text(json.dumps(rows))
            took = time.process_time() - started
            said = f"{one['cases']} of {one['of']} cases ({took:.0f} s)"
            print(f"{strategy} {fault.id}: {said} {'; '.join(one['by'][:3])}", flush=True)
    for fault in planted if given.causes else []:
        row = rows[fault.id]
        if row["shipped"]["cases"] and "cause" not in row:
            row["cause"] = cause(fault, row["shipped"], build)
            measured.write_text(json.dumps(rows))
            print(f"cause {fault.id}: {row['cause']}", flush=True)
    if given.out:
        given.out.write_text(table(faults(), rows, given.strategies))
    for strategy in given.strategies:
        caught = sum(rows[fault.id][strategy]["cases"] is not None for fault in planted)
        print(f"{strategy}: {caught} of {len(planted)} faults found")


if __name__ == "__main__":
    main()
