"""The command `follow`. As in `cli/__init__.py`, it contains no rules."""

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from tcpassay import terminal
from tcpassay.cli.options import JsonOption
from tcpassay.plural import plural

if TYPE_CHECKING:
    from tcpassay.following import Followed, FollowedEnd

FAILED = 1
MOST = 20
"""Maximum number of first differences that are printed in full."""
SHOWN = 3
"""Ends that are named for each cause."""


def follow(
    folder: Annotated[Path, typer.Argument(help="Results of a plan, or one recording.", metavar="DIR")],
    base: Annotated[
        str | None,
        typer.Option(
            help="The same runs on the plain kernel: a folder, or its substrate in DIR (kernel:6.1). Only first "
            "differences that it does not have, or later, count.",
            metavar="DIR|SUBSTRATE",
        ),
    ] = None,
    count: Annotated[
        list[str] | None,
        typer.Option(
            help="Only count differences of this field (PSH, window, TSval, ...); may be given several times.",
            metavar="FIELD",
        ),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Let the model follow each end of recordings, and list the first differences by cause.

    The recordings need an event log and packets (`[collect] events = true`, `packets = true`). Each end is followed
    with the settings of its case: the model gets what the end received and what its application called, and must send
    what the end sent, to the microsecond, with the same fields.

    Exit code 1: an end differs from the model (with `--base`, it does not on the plain kernel, or later), or a
    recording cannot be read.

    Example: `tcpassay follow results/kernel`.
    """
    from tcpassay.following import compare, follow_folder, split  # noqa: PLC0415 - start-up time

    jobs, fields = os.cpu_count() or 1, count or ()
    done = follow_folder(folder, fields, jobs)
    if base is None:
        found = [one for one in done.ends if one.first is not None]
        told = done.as_json()
        last = ""
    else:
        plain = Path(base)
        before, done = (follow_folder(plain, fields, jobs), done) if plain.is_dir() else split(done, base)
        compared = compare(before, done)
        found = [*compared.new, *compared.earlier]
        new, earlier = ([_name(one) for one in ends] for ends in (compared.new, compared.earlier))
        told = done.as_json() | {"new": new, "earlier": earlier}
        last = f"{len(new)} new and {len(earlier)} earlier first differences than on {base}"
    if json_:
        terminal.print_json(told)
    else:
        _show(done, found, terminal.console())
        if last:
            terminal.console().print(last, highlight=False)
    if found or done.problems:
        raise typer.Exit(FAILED)


def _name(one: "FollowedEnd") -> str:
    return f"{one.run} {one.host} {one.flow}".strip()


def _show(done: "Followed", found: "list[FollowedEnd]", console: Console) -> None:
    for problem in done.problems:
        console.print(f"damaged: {escape(problem)}", style="yellow", highlight=False)
    for why, number in done.unfollowed.items():
        console.print(f"not followed ({number}): {escape(why)}", style="yellow", highlight=False)
    for one in found[:MOST]:
        _difference(one, console)
    if len(found) > MOST:
        console.print(f"... and {len(found) - MOST} more\n", highlight=False)
    names = {_name(one) for one in found}
    for cause in done.causes:
        ends = [end for end in cause.ends if end in names]
        if ends:
            some = ", ".join(ends[:SHOWN]) + (", ..." if len(ends) > SHOWN else "")
            console.print(f"{len(ends):5}  {escape(cause.cause)}  ({escape(some)})", highlight=False)
    share = f", {100 * done.whole / len(done.ends):.1f} %" if done.ends else ""
    rows, followed = sum(end.rows for end in done.ends), sum(end.followed for end in done.ends)
    console.print(
        f"{plural(len(done.ends), 'end')}: {done.whole} followed to the end{share}; {followed} of {rows} rows",
        highlight=False,
    )
    _counted(done, console)


def _difference(one: "FollowedEnd", console: Console) -> None:
    """The first difference of an end."""
    first = one.first
    if first is None:
        return
    at = f"{first.time_ns / 1e6:.6f} ms"
    console.print(f"[bold]{escape(first.cause)}[/]", highlight=False)
    where = f"  {_name(one)}, row {first.row} of {one.rows}, {at}"
    console.print(escape(where), style="dim", highlight=False)
    console.print(f"  sent:  {escape(first.sent)}", highlight=False)
    console.print(f"  model: {escape(first.expected)}", highlight=False)
    reason = ", ".join(part for part in (first.why, first.source) if part)
    if reason:
        console.print(f"  why:   {escape(reason)}", highlight=False)
    console.print()


def _counted(done: "Followed", console: Console) -> None:
    """How often fields differed that end nothing."""
    counted: Counter[str] = Counter()
    for end in done.ends:
        counted.update(end.counted)
    if counted:
        told = ", ".join(f"{name} {number}" for name, number in sorted(counted.items()))
        segments = sum(end.segments for end in done.ends)
        console.print(f"fields that differ in {segments} segments: {told}", highlight=False)


def add(app: typer.Typer) -> None:
    """Adds the command."""
    app.command()(follow)
