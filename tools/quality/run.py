"""Runs every planted fault with the cases of a shipped plan, until an oracle finds it: `make quality`.

    python tools/quality/plant.py --out out/quality && python tools/quality/run.py --build out/quality

A fault is found by a case when an oracle reports an error or a warning in it that it does not report without the fault,
or when the run fails. The table says how many cases that takes, in the order of each strategy.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COLLECT = {"series": None, "warmup": "0s", "deliveries": False, "events": True, "packets": False}
STRATEGIES = {
    "2-way": '[strategy]\nkind = "t-way"\nstrength = 2\n',
    "3-way": '[strategy]\nkind = "t-way"\nstrength = 3\n',
    "random": '[strategy]\nkind = "random"\ncount = 300\n',
}


def triples(plan: Path) -> list[dict[str, Any]]:
    """The settings of each case of a plan that is to run."""
    command = [sys.executable, "-m", "tcpassay", "plan", str(plan), "--json"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
    return [case["triples"] for case in json.loads(told)["cases"] if case["expect"] == "done"]


def found(settings: dict[str, Any], seed: int, base: str) -> set[tuple[str, str]]:
    """Oracles and titles of what is found in a case, or of its failure."""
    from tcpassay import _native  # noqa: PLC0415 - likewise
    from tcpassay.judge import judge_recording  # noqa: PLC0415
    from tcpassay.judge.log import Held  # noqa: PLC0415
    from tcpassay.recording import Recording  # noqa: PLC0415

    try:
        run = _native.run_held(settings, seed, base, COLLECT)
    except _native.PanicException:
        return {("failed run", "panic")}
    recording = Recording.of(Path(base), json.loads(run.index()))
    findings = judge_recording(recording, log=Held(run))
    return {(one.oracle, one.title.rpartition(": ")[2]) for one in findings if one.severity != "note"}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "out" / "quality")
    parser.add_argument("--plan", type=Path, default=ROOT / "plans" / "coverage.toml")
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES))
    parser.add_argument("--only", nargs="+", help="ids of faults")
    parser.add_argument("--most", type=int, default=400, help="cases of each strategy at most")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    sys.path.insert(0, str(given.build.resolve() / "package"))
    from plant import faults  # noqa: PLC0415 - beside this file

    from tcpassay import _native  # noqa: PLC0415 - the build with the faults

    if not hasattr(_native, "plant"):
        sys.exit(f"error: {given.build} holds no build with the faults; run tools/quality/plant.py first")
    planted = [fault for fault in faults() if not given.only or fault.id in given.only]
    rows: dict[str, dict[str, Any]] = {fault.id: {"rule": fault.rule} for fault in planted}
    for strategy in given.strategies:
        own = given.build / f"{strategy}.toml"
        own.write_text(f'name = "{strategy}"\nextends = "{given.plan.resolve()}"\n{STRATEGIES[strategy]}')
        cases = triples(own)[: given.most]
        clean: dict[int, set[tuple[str, str]]] = {}
        for fault in planted:
            started, row = time.process_time(), {"cases": None, "of": len(cases), "by": []}
            for number, case in enumerate(cases):
                if number not in clean:
                    _native.plant(0)
                    clean[number] = found(case, 1, str(given.build))
                _native.plant(fault.number)
                if new := found(case, 1, str(given.build)) - clean[number]:
                    row |= {"cases": number + 1, "by": sorted(f"{oracle}: {title}" for oracle, title in new)}
                    break
            rows[fault.id][strategy] = row
            took = time.process_time() - started
            said = f"{row['cases']} of {row['of']} cases ({took:.0f} s)"
            print(f"{strategy} {fault.id}: {said} {'; '.join(row['by'][:3])}", flush=True)
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1) + "\n")
    for strategy in given.strategies:
        caught = sum(row[strategy]["cases"] is not None for row in rows.values())
        print(f"{strategy}: {caught} of {len(rows)} faults found")


if __name__ == "__main__":
    main()
