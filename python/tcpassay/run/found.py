"""Summary of the findings of a plan by oracle, with common values of the runs and a command that repeats one."""

from collections import defaultdict
from typing import Final

from rich.console import Console
from rich.markup import escape

from tcpassay import common, terminal
from tcpassay.finding import Finding, Severity
from tcpassay.plan.expand import show as value_text
from tcpassay.run.result import Result, Run

Found = list[tuple[Run, list[Finding]]]
"""The runs with findings of an oracle, and these findings."""

MOST: Final = 10
"""Maximum number of commands per oracle; `findings.json` contains all."""


def show(result: Result, console: Console) -> None:
    """Prints a row per oracle, and below it commands for runs with findings."""
    by_oracle = group(result.runs)
    if not by_oracle:
        return
    grid = terminal.grid()
    for name in ("finding", "severity", "runs", "times", "in common"):
        grid.add_column(name, overflow="fold", justify="right" if name in {"runs", "times"} else "left")
    for oracle, found in by_oracle.items():
        runs = [run for run, _ in found]
        severity = "error" if _breaks(found) else "warning"
        grid.add_row(
            oracle,
            f"[{'bold red' if severity == 'error' else 'yellow'}]{severity}[/]",
            f"{len(runs)} of {sum(run.done for run in result.runs)}",
            str(sum(one.count for _, own in found for one in own)),
            escape(shared(runs, result.runs)),
        )
    console.print(grid)
    listed: dict[str, None] = {}
    for found in by_oracle.values():
        listed |= dict.fromkeys(result.replay(run) for run, _ in found[:MOST])
    console.print(f"Repeat runs with a finding ({len(listed)} shown):", highlight=False)
    for command in listed:
        console.print(f"  {escape(command)}", highlight=False, soft_wrap=True)


def group(runs: list[Run]) -> dict[str, Found]:
    """The runs with findings by oracle: errors first, then by number of runs."""
    made: dict[str, Found] = defaultdict(list)
    for run in runs:
        for oracle in dict.fromkeys(one.oracle for one in run.findings):
            made[oracle].append((run, [one for one in run.findings if one.oracle == oracle]))
    return dict(sorted(made.items(), key=lambda item: (not _breaks(item[1]), -len(item[1]))))


def _breaks(found: Found) -> bool:
    """Whether one of the findings is an error."""
    return any(one.severity is Severity.ERROR for _, own in found for one in own)


def shared(having: list[Run], runs: list[Run]) -> str:
    """Values that all runs with a finding have and not all others, with the number of runs with these values."""
    # Values of negative cases are not compared with the others.
    return common.words([_values(run) for run in having], [_values(run) for run in runs if run.done])


def _values(run: Run) -> dict[str, str]:
    return {name: value_text(value) for name, value in run.case.varied.items()}
