"""`experiments run` is killed repeatedly and then run to its end: the outcome is that of an undisturbed command."""

import json
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from trial import PLAN, Fault, Trial, command, ended, start

EXPERIMENT = """\
[experiment]
title = "Two controllers"
paper = "Author, Title (2020)"
figure = "Figure 1"
setting = "100 Mbit/s."
explanation = "Nothing to explain."
[[experiment.claim]]
name = "rate"
place = "Figure 1"
metric = "throughput"
paper = "95Mbit"
within = 1.2
direction = ["> 1Mbit"]
"""
RUN = ("experiments", "run", "torture", "--plans", "papers", "--out", "out", "--jobs", "2")


def trial(trial: Trial) -> None:
    """Kills at random times, the first ones probably during the creation of the folder."""
    calm = trial.scratch / "calm-experiment"
    if not calm.exists():
        _written(calm)
        trial.good(command(*RUN, cwd=calm))
    _written(trial.folder)
    for _ in range(trial.dice.randint(1, 4)):
        process = start(*RUN, cwd=trial.folder)
        time.sleep(trial.dice.uniform(0.2, 2))
        process.send_signal(signal.SIGKILL)
        ended(process)
    trial.good(command(*RUN, cwd=trial.folder))
    if _outcome(trial.folder) != _outcome(calm):
        raise Fault("the outcome is not that of an undisturbed command")
    here, there = (
        folder / "out" / "model" / "torture" / "metrics.parquet" for folder in (trial.folder, calm)
    )
    if here.read_bytes() != there.read_bytes():
        raise Fault("the metrics are not those of an undisturbed command")
    left = [path.name for path in (trial.folder / "out" / "model").iterdir() if path.name.startswith(".")]
    if left:
        raise Fault(f"left behind: {left}")
    shutil.rmtree(trial.folder / "out")


def _written(folder: Path) -> None:
    (folder / "papers").mkdir(parents=True)
    (folder / "papers" / "torture.toml").write_text(PLAN + EXPERIMENT, encoding="utf-8")


def _outcome(folder: Path) -> dict[str, Any]:
    said = json.loads((folder / "out" / "model" / "torture.json").read_text(encoding="utf-8"))
    return {name: value for name, value in said.items() if name != "cpu_s"}
