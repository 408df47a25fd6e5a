"""The commands `stack list`, `build`, `check`, `measure` and `compare`. They contain no rules."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tcpassay import _native, terminal
from tcpassay.cli.comparison import CausesBudgetOption, OutOption, ResumeOption, check_resume, tell
from tcpassay.cli.options import FilterOption, ForceOption, JobsOption, JsonOption, JunitOption, SeedOption
from tcpassay.errors import UserError
from tcpassay.pace import Working

if TYPE_CHECKING:
    from tcpassay.stacks.measure.facts import Measured

BROKEN = 1

app = typer.Typer(
    name="stack",
    no_args_is_help=True,
    help="Other TCPs than the model, and processes that connect them (docs/stacks.md).",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("list")
def list_(json_: JsonOption = False) -> None:
    """List the values of `stack.implementation`, with their versions.

    Example: `tcpassay stack list`.
    """
    from tcpassay.stacks.catalogue import listed  # noqa: PLC0415 - start-up time

    rows = listed()
    if json_:
        terminal.print_json([row.as_json() for row in rows])
        return
    for row in rows:
        typer.echo(f"{row.implementation:<14}  {row.version}  ({row.where})")


@app.command()
def build(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Values of `stack.implementation` that are built: gvisor, lwip, pytcp, and other versions, such as "
            "smoltcp@0.13 and lwip@2.1.3.",
            metavar="NAME...",
        ),
    ],
) -> None:
    """Build the process of a TCP into the user's cache, from a version of its registry: the pinned one, or another.

    A process that was built before is replaced. A build that fails leaves it as it was.

    Example: `tcpassay stack build gvisor lwip`.
    """
    from tcpassay.stacks.build import build as built  # noqa: PLC0415 - start-up time

    for name in names:
        typer.echo(f"{name}: {built(name)}")


@app.command()
def check(
    command: Annotated[
        str,
        typer.Argument(
            help="The command of the process, with its arguments in one argument; `exec:` before it is allowed."
        ),
    ],
    json_: JsonOption = False,
) -> None:
    """Check a process that implements the protocol of docs/stacks.md.

    It runs scenes with the process twice, with delayed answers and with further requests, and compares the packets.
    Exit code 0: nothing is wrong. 1: something is. 2: an error in the input.

    Example: `tcpassay stack check './my-stack --option'`.
    """
    from tcpassay.stacks.check import check as checked  # noqa: PLC0415 - start-up time

    found = []
    for one in checked(command.removeprefix("exec:")):
        found.append(one)
        if not json_:
            typer.echo(
                f"{'wrong' if one.wrong else 'ok':<5}  {one.what}{': ' if one.wrong else ''}{one.wrong}"
            )
    if json_:
        terminal.print_json([{"what": one.what, "wrong": one.wrong} for one in found])
    if any(one.wrong for one in found):
        raise typer.Exit(BROKEN)


@app.command()
def measure(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Values of `stack.implementation` other than `model`; a command with a `/` needs no `exec:`.",
            metavar="NAME...",
        ),
    ],
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a table in Markdown.")] = False,
    json_: JsonOption = False,
) -> None:
    """Measure facts of a TCP by probes: timers, windows, options, answers to unusual segments.

    A scripted peer talks to the TCP in virtual time. Nothing is compared with an expected value.

    Example: `tcpassay stack measure exec:./my-stack`.
    """
    from tcpassay.stacks.catalogue import checked_name, column, named  # noqa: PLC0415 - start-up time
    from tcpassay.stacks.measure.facts import measure as measured  # noqa: PLC0415 - start-up time
    from tcpassay.stacks.measure.table import markdown as table  # noqa: PLC0415 - start-up time

    names = [named(name) for name in names]
    for name in names:
        checked_name(name)
    columns: dict[str, list[Measured]] = {}
    with Working(terminal.console(stderr=True), "Measuring") as working:
        for name in names:
            try:
                rows = columns.setdefault(column(name), [])
                for one in measured(name):
                    rows.append(one)
                    working.update(f"{name}: {one.fact.what}")
            except _native.StackError as error:
                outcome, why = error.args
                raise UserError(f"`{name}`: outcome `{outcome}`: {why}") from None
    if markdown:
        typer.echo(table(columns), nl=False)
    elif json_:
        terminal.print_json(
            {title: {one.fact.what: one.value for one in rows} for title, rows in columns.items()}
        )
    else:
        for title, rows in columns.items():
            typer.echo(title)
            for one in rows:
                typer.echo(f"  {one.fact.what:<48}  {one.value}  ({one.fact.section})")


@app.command()
def compare(
    base: Annotated[
        str, typer.Argument(help="A value of `stack.implementation` other than `model`.", metavar="BASE")
    ],
    head: Annotated[str, typer.Argument(help="The one that is compared with it.", metavar="HEAD")],
    plan: Annotated[
        Path | None,
        typer.Option(
            help="The plan whose cases are run; its values of `stack.implementation` other than `model` are replaced.",
            metavar="PLAN",
            show_default="cases over paths, disturbances, work and readers",
        ),
    ] = None,
    seed: SeedOption = None,
    filter_: FilterOption = None,
    jobs: JobsOption = None,
    out: OutOption = None,
    budget: CausesBudgetOption = "20s",
    by: Annotated[
        Literal["packets", "metrics"] | None,
        typer.Option(
            help="What makes a pair of runs different: packets, or metrics and findings.",
            show_default="packets for versions of one TCP, otherwise metrics",
        ),
    ] = None,
    junit: JunitOption = None,
    json_: JsonOption = False,
    force: ForceOption = False,
    resume: ResumeOption = False,
) -> None:
    """Run the same cases with two TCPs, or two versions of one, and report what differs.

    Exit code 0: no difference. 1: differences. 2: an error in the input. 130: interrupted, or a run did not end.

    Example: `tcpassay stack compare pytcp@0.3.7 pytcp`.
    """
    from tcpassay import output, trees  # noqa: PLC0415 - start-up time
    from tcpassay.isolate import Budget  # noqa: PLC0415 - start-up time
    from tcpassay.run.show import Progress  # noqa: PLC0415 - start-up time
    from tcpassay.stacks.catalogue import named  # noqa: PLC0415 - start-up time
    from tcpassay.stacks.compare import compare as compared  # noqa: PLC0415 - start-up time
    from tcpassay.stacks.compare import read_plan  # noqa: PLC0415 - start-up time

    output.check(junit, "the JUnit file")
    check_resume(resume, force=force, plan=plan, filter_=filter_, seed=seed)
    base, head = named(base), named(head)
    # A command in the name of the folder would have spaces and slashes.
    words = [name.removeprefix("exec:").split()[:1] for name in (base, head)]
    folder = out or Path("results") / "-".join(Path(word).name for one in words for word in one)
    options = trees.Options(
        jobs or os.cpu_count() or 1,
        seed,
        tuple(filter_ or ()),
        Budget.of(budget),
        force=force,
        resume=resume,
        by=by,
    )
    wanted = read_plan(folder / "plan.toml" if resume else plan, base, head)
    with Progress(f"{base} {head}", terminal.console(stderr=True)) as progress:
        told = compared(base, head, wanted, folder, options, progress)
    tell(told, junit, as_json=json_)
