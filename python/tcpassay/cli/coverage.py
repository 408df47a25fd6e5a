"""The command `kernel coverage`. As in `cli/__init__.py`, it contains no rules."""

import os
from pathlib import Path
from typing import Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import ForceOption, JsonOption
from tcpassay.errors import Place, UserError

INTERRUPTED = 130


def coverage(
    given: Annotated[
        Path, typer.Argument(help="A plan, which is run, or the folder of results.", metavar="PLAN|DIR")
    ],
    kernel: Annotated[
        str | None,
        typer.Option(
            help="The kernel with counters on which the plan is run; by default the only one.", metavar="NAME"
        ),
    ] = None,
    cases: Annotated[
        bool, typer.Option("--cases", help="Also list for each case what no earlier case reached.")
    ] = False,
    lcov: Annotated[
        Path | None, typer.Option(help="Write an lcov file, for `genhtml` and editors.", metavar="FILE")
    ] = None,
    filter_: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            help="Only cases with this value or id; may be given several times.",
            metavar="PATH=VALUE",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Number of parallel runs; by default one per core.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results of a plan.", show_default="results/PLAN-coverage"),
    ] = None,
    json_: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Show the lines, branches and functions of the kernel that a plan reaches.

    The kernel must have counters (`kernel build --coverage`). A plan is run on this kernel instead of on its
    substrates; in the cases of a plan for the model, settings that a kernel does not support have their defaults. In a
    folder of results, only the runs on such a kernel count.

    Exit code 0: the coverage is shown. 2: an error in the input. 130: interrupted.

    Example: `tcpassay kernel coverage plan.toml`.
    """
    from tcpassay import output, results  # noqa: PLC0415 - start-up time
    from tcpassay.gcov import counted, reached, show  # noqa: PLC0415 - start-up time
    from tcpassay.gcov.fitted import fit  # noqa: PLC0415 - start-up time
    from tcpassay.gcov.lcov import lcov as as_lcov  # noqa: PLC0415 - start-up time
    from tcpassay.kernel import store  # noqa: PLC0415 - start-up time
    from tcpassay.run.show import Progress  # noqa: PLC0415 - start-up time

    output.check(lcov, "the lcov file")
    folder, name, interrupted = given, given.name, False
    if not given.is_dir():
        if not given.exists():
            raise UserError("there is neither a plan nor a folder of this name", Place(given))
        chosen = counted.kernel_with_counters(kernel)
        fitted = fit(given, f"kernel:{chosen.name}")
        plan = fitted.plan
        if fitted.changed or fitted.omitted:
            typer.echo(
                f"{fitted.changed} cases run without settings that a kernel does not support; {fitted.omitted} cases "
                "are omitted",
                err=True,
            )
        name, folder = plan.spec.name, out or Path("results") / f"{plan.spec.name}-coverage"
        options = counted.Options(jobs or os.cpu_count() or 1, tuple(filter_ or ()), force)
        with Progress(name, terminal.console(stderr=True)) as progress:
            interrupted = counted.run_plan(plan, folder, options, progress).status != "complete"
    elif kernel or filter_ or jobs or out or force:
        raise UserError("--kernel, --filter, --jobs, --out and --force are for a plan", Place(given))
    found = reached.require(folder, results.load(folder).runs, name)
    known = store.read(found.substrate.partition(":")[2]) if ":" in found.substrate else None
    if lcov is not None:
        output.write(lcov, as_lcov(found, known.notes if known else None), "the lcov file")
    if json_:
        terminal.print_json(found.as_json())
    else:
        show.show(found, known.release if known else "", terminal.console(), cases=cases)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
