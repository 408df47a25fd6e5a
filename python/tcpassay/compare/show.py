"""A comparison for people."""

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tcpassay.compare.comparison import Comparison, Effect, Verdict, describe
from tcpassay.terminal import number

_STYLES = {Verdict.BETTER: "green", Verdict.WORSE: "red", Verdict.FEW: "yellow"}


def show(
    comparison: Comparison, console: Console, units: Mapping[str, str], *, everything: bool = False
) -> None:
    """Print what differs, values with the `units` of their metrics; with `everything`, also what does not."""
    pairing = comparison.pairing
    console.print(f"a: {escape(comparison.a)}\nb: {escape(comparison.b)}", highlight=False)
    for name, (a, b) in pairing.compared.items():
        console.print(
            f"   {escape(name)}: a {escape(a or 'default')}, b {escape(b or 'default')}", highlight=False
        )
    alone = [
        f"{len(runs)} only in {side}" for side, runs in (("a", pairing.only_a), ("b", pairing.only_b)) if runs
    ]
    console.print(", ".join([f"{len(pairing.pairs)} pairs of runs", *alone]), highlight=False)
    if comparison.repeated:
        said = f"{comparison.repeated} pairs repeat those of another seed (nothing in them is drawn) and do not count"
        console.print(said, highlight=False, style="yellow")
    for problem in comparison.problems:
        console.print(f"damaged: {escape(problem)}", highlight=False, style="yellow")
    shown = [
        e for e in comparison.effects if everything or e.verdict not in {Verdict.IDENTICAL, Verdict.SAME}
    ]
    if shown:
        console.print(_table(shown, units))
    hidden = [e for e in comparison.effects if e not in shown]
    equal = sum(e.verdict is Verdict.IDENTICAL for e in hidden)
    if hidden:
        console.print(
            f"no significant difference: {len(hidden)} metrics, {equal} of them identical in every pair",
            highlight=False,
        )
    for change in comparison.findings:
        console.print(
            f"findings of {change.oracle}: new in {len(change.new)} runs, gone from {len(change.gone)}",
            highlight=False,
        )
    _verdict(comparison, console)


def _verdict(comparison: Comparison, console: Console) -> None:
    if comparison.regressions:
        console.print("[bold red]REGRESSION[/]")
        for line in comparison.regressions:
            console.print(f"  {escape(line)}", highlight=False)
    elif comparison.same:
        console.print("[bold]no significant difference[/]")
    else:
        share = f"{100 * comparison.options.threshold:g} %"
        console.print(f"no regression: nothing is significantly worse by {share} or more", highlight=False)


def _table(effects: list[Effect], units: Mapping[str, str]) -> Table:
    grid = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("metric", "verdict"):
        grid.add_column(column, overflow="fold")
    for column in ("b against a (interval)", "median a", "median b", "up", "down", "of", "p"):
        grid.add_column(column, justify="right")
    for e in effects:
        unit = units.get(e.metric, "")
        grid.add_row(
            e.metric,
            f"[{_STYLES.get(e.verdict, 'default')}]{e.verdict}[/]",
            describe(e),
            "" if e.median_a is None else number(e.median_a, unit),
            "" if e.median_b is None else number(e.median_b, unit),
            str(e.up),
            str(e.down),
            f"{e.pairs} {e.unit}s",
            "" if e.p_adjusted is None else f"{e.p_adjusted:.2g}",
        )
    return grid
