"""Isolates the cause of a planted fault's finding: `tcpassay isolate` of the case in which it was found."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

from plant import Fault

BUDGET = "300"
"""Runs of an isolation."""


def right(fault: Fault, isolated: dict[str, Any]) -> bool:
    """Whether a cause is right.

    It is when the isolation is proven (each triple is necessary) and, for each group of parameters without which the
    fault cannot show (`needs`), one of the group is among the triples.
    """
    named = {path.partition("=")[0] for path in isolated["triples"]}
    met = all(any(one.startswith(way) for one in named for way in group) for group in fault.needs)
    return bool(isolated["proven"]) and met


def cause(fault: Fault, first: dict[str, Any], build: Path) -> dict[str, Any]:
    """The triples that `isolate` returns, whether they are proven, and what the isolation cost."""
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

    before = _cpu()
    out = folder / fault.id
    ran = tcpassay("run", str(plan), "--out", str(out), "--force", "--jobs", "1")
    if ran.returncode not in {0, 1}:
        return {"triples": [], "proven": False, "why": ran.stderr.strip().splitlines()[-1:]}
    options = ("--force", "--no-reduce", "--jobs", "1", "--budget", BUDGET, "--json")
    told = tcpassay("isolate", str(out), first["by"][0], *options)
    spent = {"cpu_s": round(_cpu() - before, 1)}
    try:
        value = json.loads(told.stdout)
        causes = value["causes"]
    except (KeyError, ValueError):
        why = (told.stderr or told.stdout).strip().splitlines()[-1:]
        return {"triples": [], "proven": False, "why": why} | spent
    if not causes:
        return {"triples": [], "proven": False, "why": ["no cause"]} | spent
    spent["runs"] = value["runs"]
    paths = [f"{one['path']}={one['value']}" for one in causes[0]["cause"]]
    why = {0: [], 1: ["not proven"]}.get(told.returncode, ["the budget was used up"])
    return {"triples": paths, "proven": told.returncode == 0, "why": why} | spent


def _cpu() -> float:
    """CPU time of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
