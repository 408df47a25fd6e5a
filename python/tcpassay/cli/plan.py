"""The command `plan`. As in `cli/__init__.py`, it contains no rules."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from tcpassay import terminal
from tcpassay.cli.options import JsonOption, TestbedOption
from tcpassay.plural import plural

if TYPE_CHECKING:
    from rich.console import Console

    from tcpassay.cover.verify import Report
    from tcpassay.plan.coverage import Sizes
    from tcpassay.plan.read import Plan

FAILED = 1
# Maximum number of cases listed without --cases.
MOST_LISTED = 40
# Maximum number of missing combinations shown per line.
MOST_MISSING = 3


def plan(
    file: Annotated[Path, typer.Argument(help="The plan, a TOML file.", metavar="PLAN")],
    strength: Annotated[
        int | None,
        typer.Option(min=2, max=6, help="Use the strategy `t-way` with this strength.", metavar="N"),
    ] = None,
    cases: Annotated[bool, typer.Option("--cases", help="List all cases.")] = False,
    check_hosts: Annotated[
        bool,
        typer.Option(
            "--check-hosts", help="Connect to the testbeds of the plan, and let their hosts check the cases."
        ),
    ] = False,
    testbed: TestbedOption = None,
    json_: JsonOption = False,
) -> None:
    """Show the size, the cases and the coverage of a plan without running it.

    The command only reads: it executes no code of the plan, and connects to no host without --check-hosts.

    Example: `tcpassay plan plan.toml --cases`.
    """
    from tcpassay.plan import coverage, read  # noqa: PLC0415 - start-up time
    from tcpassay.plan.enough import too_few  # noqa: PLC0415 - start-up time
    from tcpassay.trust import ask, consent  # noqa: PLC0415 - start-up time

    ask.testbeds(testbed or ())
    if check_hosts:
        consent.connect()
    wanted = read.read_file(file, strength)
    size, report = coverage.sizes(wanted), coverage.coverage(wanted)
    if json_:
        terminal.print_json(_json(wanted, size, report))
    else:
        out = terminal.console()
        _sizes(wanted, size, out)
        _cases(wanted, out, every=cases)
        _coverage(report, out)
        _search(wanted, out)
        for note in [*wanted.notes, *too_few(wanted)]:
            out.print(f"[yellow]note[/]: {escape(note)}", highlight=False, soft_wrap=True)
    promised = wanted.spec.strategy.kind in {"t-way", "full"}
    if report.forbidden or (promised and not report.complete):
        raise typer.Exit(FAILED)


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(plan)


def _sizes(wanted: "Plan", size: "Sizes", console: "Console") -> None:
    spec = wanted.spec
    console.print(f"[bold]{spec.name}[/]  {escape(' '.join(spec.doc.split()))}", highlight=False)
    refused = f", {size.refused} of which must be refused" if size.refused else ""
    allowed = f"; the constraints allow {size.allowed:,}" if size.allowed < size.product else ""
    then = " first, then others that depend on results" if spec.strategy.kind == "search" else ""
    scripts = sum(case.script is not None for case in wanted.cases)
    stated = len(spec.case) * len(spec.substrates)
    own = size.cases - scripts - stated
    if own > 0:
        console.print(
            (
                f"{plural(size.factors, 'factor')} with {plural(size.product, 'combination')}{allowed}\n"
                if size.factors
                else ""
            )
            + f"strategy {spec.strategy.kind}: {plural(own, 'case')}{refused}{then}",
            highlight=False,
        )
    if stated:
        console.print(f"stated: {plural(stated, 'case')}", highlight=False)
    if scripts:
        console.print(f"packetdrill scripts: {plural(scripts, 'case')}", highlight=False)
    console.print(
        f"{plural(size.seeds, 'seed')}, {plural(size.repetitions, 'repetition')}: {plural(size.runs, 'run')}",
        highlight=False,
    )


def _search(wanted: "Plan", console: "Console") -> None:
    """Prints the space of a search."""
    from tcpassay.search import outlook  # noqa: PLC0415 - start-up time

    for line in outlook.lines(wanted.spec):
        console.print(escape(line), highlight=False)


def _cases(wanted: "Plan", console: "Console", *, every: bool) -> None:
    if len(wanted.cases) > MOST_LISTED and not every:
        console.print("(--cases lists the cases)\n", highlight=False)
        return
    console.print()
    for case in wanted.cases:
        refused = f"  [yellow]must be refused: {case.negative}[/]" if case.negative else ""
        label = case.label or "nothing varies"
        console.print(f"{case.id}  {escape(label)}{refused}", highlight=False, soft_wrap=True)
    console.print()


def _coverage(report: "Report", console: "Console") -> None:
    if not report.lines:  # nothing varies
        return
    grid = terminal.grid()
    for name in ("combinations of", "strength", "parameters", "covered", "possible", "excluded", ""):
        grid.add_column(name, justify="left" if name in {"combinations of", ""} else "right", overflow="fold")
    for line in report.lines:
        said = "[green]complete[/]" if line.complete else f"[red]{100 * line.ratio:.1f} %[/]"
        numbers = (line.strength, line.parameters, line.covered, line.total, line.excluded)
        grid.add_row(line.name, *(f"{number:,}" for number in numbers), said)
        for missing in line.examples[:MOST_MISSING]:
            said = ", ".join(f"{name}={value}" for name, value in missing.items())
            grid.add_row(f"  missing: {escape(said)}", style="dim")
    console.print(grid)


def _json(wanted: "Plan", size: "Sizes", report: "Report") -> dict[str, object]:
    from tcpassay.plan import coverage  # noqa: PLC0415 - start-up time

    return {
        "name": wanted.spec.name,
        "file": str(wanted.file),
        "strategy": wanted.spec.strategy.model_dump(by_alias=True),
        "factors": size.factors,
        "product": size.product,
        "allowed": size.allowed,
        "seeds": wanted.spec.seeds,
        "repetitions": size.repetitions,
        "runs": size.runs,
        "cases": [
            {"case": case.id, "varied": case.varied, "triples": case.triples, "expect": case.expect}
            for case in wanted.cases
        ],
        "coverage": [coverage.as_json(line) for line in report.lines],
        "notes": list(wanted.notes),
    }
