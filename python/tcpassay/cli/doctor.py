"""The command `doctor`. As in `cli/__init__.py`, it contains no rules."""

import typer
from rich.table import Table

from tcpassay import terminal
from tcpassay.cli.options import JsonOption

MARKS = {"ok": "[green]ok[/]", "missing": "[red]missing[/]", "worse": "[yellow]limited[/]"}


def doctor(json_: JsonOption = False) -> None:
    """Show which substrates this machine can run, and what is missing for the others.

    Example: `tcpassay doctor`.
    """
    from rich.markup import escape  # noqa: PLC0415 - start-up time

    from tcpassay.doctor import diagnose  # noqa: PLC0415 - start-up time

    found = diagnose()
    if json_:
        terminal.print_json([one.as_json() for one in found])
        return
    console = terminal.console()
    for one in found:
        if one.usable:
            verdict = "[green]can be used[/]"
        elif not one.built:
            could = " (this machine has what it needs)" if one.able and one.checks else ""
            verdict = f"[yellow]not in this version[/]{could}"
        else:
            verdict = "[red]cannot be used[/]"
        console.print(f"[bold]{one.substrate}[/], {one.about}: {verdict}", highlight=False)
        grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for fold in (False, False, True):
            grid.add_column(no_wrap=not fold, overflow="fold")
        for check in one.checks:
            told = escape(check.found) + (f"; {escape(check.do)}" if check.do else "")
            grid.add_row(f"  {MARKS[check.mark]}", check.what, told)
        if one.checks:
            console.print(grid)


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(doctor)
