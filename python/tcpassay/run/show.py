"""What a person sees of a run: progress on standard error, a summary on standard output."""

import contextlib
import math
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from tcpassay.plan import table
from tcpassay.plan.expand import levels, show
from tcpassay.plan.model import Check, Scalar
from tcpassay.plan.read import Plan
from tcpassay.run.checks import Verdict
from tcpassay.run.execute import Result, Run

PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
# Runs in which a check fails that are listed one by one.
MOST_FAILING = 5
SCALED = {"s", "bit/s", "B"}


def number(value: float | None, unit: str) -> str:
    """A value with three or four significant digits and a prefix, `198 ms`."""
    if value is None or not math.isfinite(value):
        return "-"
    if unit not in SCALED or value == 0:
        return f"{value:.4g}"
    scale, prefix = next((p for p in PREFIXES if abs(value) >= p[0]), PREFIXES[-1])
    if unit == "s" and scale > 1:
        scale, prefix = 1.0, ""
    return f"{value / scale:.4g} {prefix}{unit}"


@contextlib.contextmanager
def progress(plan: Plan, console: Console) -> Iterator[Callable[[Run], None]]:
    """Shows how far the runs are; to anything but a terminal, only what went wrong."""
    total = len(plan.cases) * len(plan.spec.seeds)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("runs,"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(escape(plan.spec.name), total=total)

        def finished(run: Run) -> None:
            if not run.done:
                name = f"case {run.case.id} seed {run.seed}"
                console.print(
                    f"[red]{run.outcome}[/]: {name} ({escape(run.case.label)}): {escape(run.message)}"
                )
            bar.advance(task)

        yield finished


def summary(result: Result, console: Console) -> None:
    """Title, a table of the runs, the checks, and where to look."""
    spec = result.plan.spec
    console.print(f"[bold]{escape(spec.name)}[/]  {escape(' '.join(spec.doc.split()))}", highlight=False)
    console.print(_runs(result))
    if result.verdicts:
        console.print(_checks(result))
    failed = sum(not verdict.holds for verdict in result.verdicts)
    broken = sum(not run.done for run in result.runs)
    done = len(result.runs) - broken
    cpu = sum(run.cpu_s for run in result.runs)
    words = [f"{done} of {len(result.runs)} runs finished ({cpu:.1f} s of CPU)"]
    if result.verdicts:
        held = len(result.verdicts) - failed
        words.append(f"{held} of {len(result.verdicts)} checks hold")
    if result.status == "interrupted":
        words.insert(0, "interrupted")
    colour = "green" if result.ok else "yellow" if result.status == "interrupted" else "red"
    console.print(f"[{colour}]{'; '.join(words)}[/]", highlight=False)
    console.print(f"Results: {result.folder.path}", highlight=False, soft_wrap=True)
    for figure in result.figures:
        if figure.endswith(".svg"):
            console.print(f"Figure:  {result.folder.path / figure}", highlight=False, soft_wrap=True)


def _runs(result: Result) -> Table:
    plan = result.plan
    known = table.metrics()
    wanted = dict.fromkeys(check.metric for check in plan.spec.check) or dict.fromkeys(list(known)[:4])
    grid = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    factors = levels(plan.spec)
    for name in factors:
        grid.add_column(name, overflow="fold")
    if len(plan.spec.seeds) > 1 or not factors:
        grid.add_column("seed", justify="right")
    for name in wanted:
        grid.add_column(name, justify="right", overflow="fold")
    for run in result.runs:
        cells = [show(value) for value in run.case.varied.values()]
        if len(plan.spec.seeds) > 1 or not factors:
            cells.append(str(run.seed))
        if run.done:
            cells += [number(run.metrics.get(name), known[name].unit) for name in wanted]
        else:
            cells.append(run.outcome)
        grid.add_row(*cells, style=None if run.done else "red")
    return grid


def _checks(result: Result) -> Table:
    """A row a check, and one for each run in which it fails, up to a few."""
    grid = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("check", "in", "observed", "", "why"):
        grid.add_column(name, overflow="fold", justify="right" if name == "observed" else "left")
    for check in result.plan.spec.check:
        verdicts = [verdict for verdict in result.verdicts if verdict.check is check]
        failing = [verdict for verdict in verdicts if not verdict.holds]
        word = "[green]holds[/]" if not failing else "[bold red]FAILS[/]"
        if failing and len(verdicts) > 1:
            word += f" {len(failing)} of {len(verdicts)}"
        grid.add_row(
            f"{check.metric} {check.op} {_limits(verdicts)}",
            _where(check, verdicts),
            _range([verdict.observed for verdict in verdicts], check.metric),
            word,
            escape(" ".join(check.why.split())),
        )
        for verdict in failing[:MOST_FAILING] if len(verdicts) > 1 else []:
            observed = _range([verdict.observed], check.metric)
            grid.add_row("", verdict.subject, observed, "", verdict.note, style="red")
    return grid


def _where(check: Check, verdicts: list[Verdict]) -> str:
    named = [f"{name.split('.')[-1]}={_values(wanted)}" for name, wanted in check.where.items()]
    runs = (
        f"{check.over} of runs"
        if check.over != "each"
        else f"{len(verdicts)} run{'s' * (len(verdicts) != 1)}"
    )
    return ", ".join([*named, runs])


def _values(wanted: Scalar | list[Scalar]) -> str:
    return "|".join(map(show, wanted)) if isinstance(wanted, list) else show(wanted)


def _limits(verdicts: list[Verdict]) -> str:
    check = verdicts[0].check
    limits = _range([verdict.limit for verdict in verdicts], check.metric)
    return limits if check.times is None else f"{limits} ({check.value:g} x {_partner(check)})"


def _partner(check: Check) -> str:
    return ", ".join(f"{name.split('.')[-1]}={_values(value)}" for name, value in (check.times or {}).items())


def _range(values: list[float | None], metric: str) -> str:
    """The smallest and the largest, or one where they read the same."""
    unit = table.metrics()[metric].unit
    known = [value for value in values if value is not None]
    ends = [number(value, unit) for value in (min(known), max(known))] if known else ["-"]
    return " to ".join(dict.fromkeys(ends))
