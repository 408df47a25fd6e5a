"""Isolates the cause of a planted fault's finding: `tcpassay isolate` of the case in which it was found."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from plant import Fault

BUDGET = "60s"


def cause(fault: Fault, first: dict[str, Any], build: Path) -> dict[str, Any]:
    """The triples that `isolate` returns, and whether they are correct.

    They are right when the isolation is proven (each triple is necessary) and, for each group of parameters without
    which the fault cannot show (`needs`), one of the group is among them.
    """
    folder = build / "cause"
    folder.mkdir(exist_ok=True)
    plan = folder / f"{fault.id}.toml"
    fixed = "\n".join(f"{json.dumps(path)} = {json.dumps(value)}" for path, value in first["triples"].items())
    plan.write_text(
        'name = "cause"\ndoc = "The case in which a planted fault was found."\n'
        f"[collect]\nevents = true\n[fixed]\n{fixed}\n"
    )
    environment = os.environ | {"TCPASSAY_FAULT": str(fault.number), "PYTHONPATH": str(build / "package")}

    def tcpassay(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tcpassay", *arguments]
        return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)  # noqa: S603

    out = folder / fault.id
    ran = tcpassay("run", str(plan), "--out", str(out), "--force", "--jobs", "1")
    if ran.returncode not in {0, 1}:
        return {"triples": [], "right": False, "why": ran.stderr.strip().splitlines()[-1:]}
    oracle = first["by"][0].partition(":")[0]
    options = ("--force", "--seeds", "1", "--jobs", "1", "--budget", BUDGET, "--json")
    told = tcpassay("isolate", str(out), oracle, *options)
    try:
        causes = json.loads(told.stdout)["causes"]
    except (KeyError, ValueError):
        return {"triples": [], "right": False, "why": (told.stderr or told.stdout).strip().splitlines()[-1:]}
    if not causes:
        return {"triples": [], "right": False, "why": ["no cause"]}
    paths = [f"{one['path']}={one['value']}" for one in causes[0]["cause"]]
    named = {path.partition("=")[0] for path in paths}
    met = all(any(one.startswith(way) for one in named for way in group) for group in fault.needs)
    why = [] if met else ["a setting that the fault needs is missing"]
    if told.returncode != 0:
        why.append("not proven" if told.returncode == 1 else "the budget was used up")
    return {"triples": paths, "right": met and told.returncode == 0, "why": why}
