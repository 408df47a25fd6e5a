"""Findings of a plan in short: by oracle, with what the runs that have them share, and the command that repeats one."""

from collections import defaultdict
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from tcpassay import terminal
from tcpassay.plan.expand import show as value_text
from tcpassay.run.result import Result, Run

_EACH: Final = 4
"""Runs for each of several values that runs with a finding have, for the values to be told."""
MOST = 10
"""Commands that are printed for one oracle; `findings.json` has them all."""


def show(result: Result, console: Console) -> None:
    """Print a row an oracle, and below it a command for each run in which it found something."""
    by_oracle = group(result.runs)
    if not by_oracle:
        return
    grid = terminal.grid()
    for name in ("finding", "severity", "runs", "times", "these runs share"):
        grid.add_column(name, overflow="fold", justify="right" if name in {"runs", "times"} else "left")
    for oracle, found in by_oracle.items():
        runs = [run for run, _ in found]
        severities = {one["severity"] for _, own in found for one in own}
        severity = "error" if "error" in severities else "warning"
        grid.add_row(
            oracle,
            f"[{'bold red' if severity == 'error' else 'yellow'}]{severity}[/]",
            f"{len(runs)} of {sum(run.done for run in result.runs)}",
            str(sum(one["count"] for _, own in found for one in own)),
            escape(shared(runs, result.runs)),
        )
    console.print(grid)
    listed: dict[str, None] = {}
    for found in by_oracle.values():
        listed |= dict.fromkeys(result.replay(run) for run, _ in found[:MOST])
    console.print(f"Each run again, with what was found ({len(listed)} shown):", highlight=False)
    for command in listed:
        console.print(f"  {escape(command)}", highlight=False, soft_wrap=True)


def group(runs: list[Run]) -> dict[str, list[tuple[Run, list[dict[str, Any]]]]]:
    """The runs in which each oracle found something, with what it found; the most frequent first."""
    made: dict[str, list[tuple[Run, list[dict[str, Any]]]]] = defaultdict(list)
    for run in runs:
        for oracle in dict.fromkeys(one["oracle"] for one in run.findings):
            made[oracle].append((run, [one for one in run.findings if one["oracle"] == oracle]))
    return dict(sorted(made.items(), key=lambda item: -len(item[1])))


def shared(having: list[Run], runs: list[Run]) -> str:
    """Values that all runs with a finding have and not all others, and how many of the runs with them have it."""
    # Values that are there to be refused are not what the others have.
    runs = [run for run in runs if run.done]
    names = dict.fromkeys(name for run in runs for name in run.case.varied)
    if len(having) == 1 and len(names) > _EACH:
        return "one run alone"  # it shares all that it has
    parts = {}
    for name in names:
        values = dict.fromkeys(_value(run, name) for run in having)
        if None in values:
            continue
        # Several values of a few runs are a coincidence.
        few = len(values) == 1 or _EACH * len(values) <= len(having)
        if few and len(values) < len({_value(run, name) for run in runs}):
            parts[name] = values
    if not parts:
        return "no value that the others have not"
    alike = [run for run in runs if all(_value(run, n) in v for n, v in parts.items())]
    said = ", ".join(f"{name}={'|'.join(map(str, values))}" for name, values in parts.items())
    return f"{said} ({len(having)} of {len(alike)} runs with that)"


def _value(run: Run, name: str) -> str | None:
    return value_text(run.case.varied[name]) if name in run.case.varied else None
