"""Findings as text."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tcpassay.finding import Finding, Severity
from tcpassay.judge.folders import Judged
from tcpassay.judge.registry import ORACLES, of_no_capture
from tcpassay.judge.words import ms
from tcpassay.plural import plural

_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.DIFFERENCE: "cyan",
    Severity.NOTE: "dim",
}
MOST = 20
"""Maximum number of findings that are printed in full; the file contains all."""


def show(judged: Judged, console: Console) -> None:
    """Prints the answer, the findings, errors first, and then what was not judged."""
    ordered = sorted(judged.findings, key=lambda one: one.severity.rank)
    _answer(judged, len(ordered), console)
    for one in ordered[:MOST]:
        _finding(one, console)
    if len(ordered) > MOST:
        console.print(f"... and {len(ordered) - MOST} more\n", highlight=False)
    if ordered:
        console.print(_totals(ordered))
    for problem in judged.problems:
        console.print(f"damaged: {escape(problem)}", style="yellow", highlight=False)
    for note in judged.notes:
        console.print(f"note: {escape(note)}", style="yellow", highlight=False)
    reasons = dict.fromkeys(judged.unjudged.values())
    always = [why for why in reasons if judged.ends and of_no_capture(why)]
    for why in reasons:
        oracles = [oracle for oracle, reason in judged.unjudged.items() if reason == why]
        if why not in always:
            console.print(f"not judged: {', '.join(oracles)}: {escape(why)}", style="yellow", highlight=False)
    if always:
        count = sum(reason in always for reason in judged.unjudged.values())
        said = f"not judged: {plural(count, 'oracle')} that need events or settings, which no capture has (`--json`)"
        console.print(escape(said), style="yellow", highlight=False)
    _ends(judged, console)


def _answer(judged: Judged, count: int, console: Console) -> None:
    """Prints the number of findings and of what was judged."""
    looked = f"{plural(judged.judged, 'capture' if judged.ends else 'recording')} judged"
    without = f", {judged.silent} without an event log ([collect] events = true)" if judged.silent else ""
    number = plural(count, "finding") if count else "no findings" if judged.judged else "nothing to judge"
    colour = "red" if count else "green" if judged.judged else "yellow"
    console.print(f"[{colour}]{number}[/]; {escape(looked + without)}", highlight=False)


def _ends(judged: Judged, console: Console) -> None:
    """Prints what was not judged of some ends of connections, once for each reason."""
    flows: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for end in judged.ends:
        oracles = tuple(oracle for oracle in end.oracles if oracle not in judged.unjudged)
        if oracles:
            flows.setdefault((end.why, oracles), []).append(end.flow)
    for (why, oracles), named in flows.items():
        where = named[0] if len(named) == 1 else f"{named[0]} and {len(named) - 1} more"
        said = f"not judged of the end that sends {where}: {', '.join(oracles)}: {why}"
        console.print(escape(said), style="yellow", highlight=False)


def _finding(one: Finding, console: Console) -> None:
    times = f" x {one.count}" if one.count > 1 else ""
    style = _STYLES[one.severity]
    console.print(f"[{style}]{one.severity}[/] [bold]{escape(one.title)}[/]{times}", highlight=False)
    run = f"case {one.case} seed {one.seed}, " if one.case else ""
    where = f"  {run}{one.host}, {one.flow}, {ms(one.start_ns)} to {ms(one.end_ns)} ({one.oracle})"
    console.print(escape(where), style="dim", highlight=False)
    console.print(f"  {escape(one.text)}", highlight=False)
    # A finding in a capture has frames only.
    rows = f"rows {', '.join(str(row.index) for row in one.events)} of events.parquet" if one.events else ""
    frames = f"frames {', '.join(map(str, one.packets))}" if one.packets else ""
    console.print(f"  {'; '.join(filter(None, (rows, frames)))}", style="dim", highlight=False)
    if one.replay:
        console.print(f"  {escape(one.replay)}", highlight=False, soft_wrap=True)
    console.print()


def _totals(findings: list[Finding]) -> Table:
    grid = _grid("oracle", "findings", "occurrences", "runs")
    for name in ORACLES:
        own = [one for one in findings if one.oracle == name]
        if own:
            runs = len({(one.case, one.seed) for one in own})
            grid.add_row(name, str(len(own)), str(sum(one.count for one in own)), str(runs))
    return grid


def oracles(console: Console) -> None:
    """Prints the oracles."""
    grid = _grid("oracle", "what it finds", "reason")
    for one in ORACLES.values():
        grid.add_row(one.name, one.title, escape(one.why))
    console.print(grid)


def _grid(*columns: str) -> Table:
    grid = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        grid.add_column(column, overflow="fold")
    return grid
