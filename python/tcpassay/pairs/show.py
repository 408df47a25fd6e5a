"""Verdicts as text."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tcpassay.pairs.verdict import Verdict

MOST = 20


def show(verdicts: list[Verdict], console: Console) -> None:
    """Prints the degraded pairs, those without an explanation first."""
    worse = sorted(
        (one for one in verdicts if one.degraded), key=lambda one: (not one.unexplained, one.ratio)
    )
    if worse:
        grid = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for column in ("case", "setting", "from", "to", "goodput", "explanation"):
            grid.add_column(column, overflow="fold")
        for one in worse[:MOST]:
            words = one.explanation or ("[red]none[/]" if one.pair.setting != "substrate" else _apart(one))
            ratio = f"x {one.ratio:.2f}"
            grid.add_row(one.pair.case, one.pair.setting, one.pair.before, one.pair.after, ratio, words)
        console.print(grid)
        if len(worse) > MOST:
            console.print(f"... and {len(worse) - MOST} more", highlight=False)
    without = sum(one.unexplained for one in verdicts)
    colour = "red" if without else "green" if verdicts else "yellow"
    said = f"{len(verdicts)} pairs compared, {len(worse)} degraded, {without} without an explanation"
    console.print(f"[{colour}]{said}[/]", highlight=False)


def _apart(one: Verdict) -> str:
    first, second = one.pair.findings
    only = [f"{name} on the model alone" for name in first if name not in second]
    only += [f"{name} on {one.pair.after} alone" for name in second if name not in first]
    return escape(", ".join(only)) or "[red]none[/]"
