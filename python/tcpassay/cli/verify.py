"""The command `verify`. As in `cli/__init__.py`, it contains no rules."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcpassay import output, terminal
from tcpassay.cli.options import FilterOption, ForceOption, JobsOption, TestbedOption, pairs
from tcpassay.cli.run import FAILED, INTERRUPTED
from tcpassay.errors import UserError

if TYPE_CHECKING:
    from tcpassay.plan.read import Plan


def verify(
    plan: Annotated[Path, typer.Argument(help="The plan, a TOML file.", metavar="PLAN")],
    fix: Annotated[
        list[str],
        typer.Option(
            help="Another value of a fixed setting, or `substrate=kernel:NAME`; may be given several times.",
            metavar="PATH=VALUE",
        ),
    ],
    filter_: FilterOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the results.", metavar="DIR", show_default="results/<name of the plan>-verify"
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write the page to this file, as Markdown.", metavar="FILE")
    ] = None,
    jobs: JobsOption = None,
    force: ForceOption = False,
    testbed: TestbedOption = None,
) -> None:
    """Verify fixes: run a plan, isolate and explain what it finds, and run the cases that each fix changes.

    A fix is a setting with another value, or another substrate, such as a kernel with a patch. The page has what was
    found, the settings that cause it, what happens, and what remains with each fix. After an interrupt the same command
    continues.

    Exit code 0: the plan finds something, the causes are proven, and nothing is found in the cases that a fix changes.
    1: one of these does not hold. 2: an error in the input. 130: interrupted.

    Example: `tcpassay verify plan.toml --fix stack.dctcp_receiver=immediate --page page.md`.
    """
    from tcpassay.fixes import Fix, Work  # noqa: PLC0415 - start-up time
    from tcpassay.fixes import verify as verified  # noqa: PLC0415 - start-up time
    from tcpassay.fixes.page import page as written  # noqa: PLC0415 - start-up time
    from tcpassay.fixes.page import summary  # noqa: PLC0415 - start-up time
    from tcpassay.plan import read  # noqa: PLC0415 - start-up time
    from tcpassay.run import show  # noqa: PLC0415 - start-up time
    from tcpassay.run.choose import choose  # noqa: PLC0415 - start-up time
    from tcpassay.substrate import substrate_of  # noqa: PLC0415 - start-up time
    from tcpassay.trust import ask  # noqa: PLC0415 - start-up time

    fixes = [Fix.of(path, value) for path, value in pairs("--fix", fix, "a setting", "stack.tlp=off")]
    output.check(page, "the page")
    ask.testbeds(testbed or ())
    wanted: Plan = ask.plan(read.read_file(plan), lambda: read.read_file(plan))
    if wanted.spec.strategy.kind == "search":
        raise UserError(f"{plan}: the cases of a search depend on results and cannot be repeated with a fix")
    if wanted.spec.oracles is False:
        raise UserError(f"{plan}: the plan has no oracles, so that it finds nothing")
    chosen = choose(wanted, filter_ or ())
    used = {case.substrate for case in wanted.cases if chosen is None or case.id in chosen}
    used |= {str(one.value) for one in fixes if one.path == "substrate"}
    for name in sorted(used):
        substrate_of(name).ready()
    alone = any(substrate_of(name).real_time for name in used)
    console = terminal.console(stderr=True)
    work = Work(
        out or Path("results") / f"{wanted.spec.name}-verify",
        1 if alone else jobs or os.cpu_count() or 1,
        force,
        lambda name: show.Progress(name, console),
    )
    try:
        history = verified(wanted, chosen, fixes, work)
    except KeyboardInterrupt:
        typer.echo("tcpassay: interrupted: the same command continues", err=True)
        raise typer.Exit(INTERRUPTED) from None
    for line in summary(history):
        typer.echo(line.replace("**", "").replace("`", ""))
    if page is not None:
        output.write(page, written(history, ["tcpassay", *sys.argv[1:]]), "the page")
        typer.echo(str(page))
    if not history.verified:
        raise typer.Exit(FAILED)


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(verify)
