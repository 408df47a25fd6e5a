"""The commands `kernel build`, `compare`, `check`, `bisect`, `coverage`, `list`, `export`, `import` and `remove`.

They contain no rules.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tcpassay import terminal
from tcpassay.cli.bisect import bisect
from tcpassay.cli.check import check
from tcpassay.cli.comparison import CausesBudgetOption, OutOption, ResumeOption, check_resume, tell
from tcpassay.cli.coverage import coverage as kernel_coverage
from tcpassay.cli.options import FilterOption, ForceOption, JobsOption, JsonOption, JunitOption, SeedOption
from tcpassay.errors import UserError

if TYPE_CHECKING:
    from tcpassay.kernel.source import Source

UNAVAILABLE = 3
_TABLE = 120
"""The smallest width of a terminal on which kernels are a table."""

app = typer.Typer(
    name="kernel",
    no_args_is_help=True,
    help="Build, compare, check, bisect, list, export, import and remove the Linux kernels of the substrate `kernel`; "
    "show coverage.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def build(
    source: Annotated[
        Path | None, typer.Option(help="A Linux source tree; it is not modified.", metavar="DIR")
    ] = None,
    debian: Annotated[
        str | None,
        typer.Option(help="The linux-source package of Debian with this version.", metavar="6.1|6.12|7.3"),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(
            help="A commit, tag or branch of the git repository `--source`, instead of its working tree.",
            metavar="REV",
        ),
    ] = None,
    patch: Annotated[
        list[Path] | None,
        typer.Option(
            help="A patch that is applied to the source before it is built, or a folder of patches; may be given "
            "several times.",
            metavar="FILE",
        ),
    ] = None,
    module: Annotated[
        list[Path] | None,
        typer.Option(
            help="A congestion-control module: a folder with C files, or one file, as for `net/ipv4`; it is linked in, "
            "and stack.cc = module:NAME selects its controller. `mvegas` is in this package. May be given several "
            "times.",
            metavar="DIR",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="The name of the kernel; by default the version, or the name of the tree, and the name of the first "
            "patch or module."
        ),
    ] = None,
    coverage: Annotated[
        bool,
        typer.Option(
            "--coverage", help="Count executions of the lines of TCP and the queue disciplines (gcov)."
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            help="Check memory, undefined behaviour, locks, lists and timers (KASAN, UBSAN, lockdep, DEBUG_NET); what "
            "the checkers report is a finding.",
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Number of parallel compilers; by default one per core."),
    ] = None,
    if_possible: Annotated[
        bool,
        typer.Option(
            "--if-possible",
            help="Exit code 3 instead of 2 if this machine lacks the programs for a build, or the source cannot be "
            "fetched.",
        ),
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Build a kernel unless it exists: Debian's 6.1, or the given source, with the given patches.

    The kernels of one source share their object files: after a change of a patch or a file, only dependent files are
    compiled again.

    Examples: `tcpassay kernel build --debian 6.1 --patch fix.patch --name fixed`;
    `tcpassay kernel build --debian 6.1 --module ./mycc`.
    """
    from tcpassay.kernel import build as building  # noqa: PLC0415 - start-up time
    from tcpassay.kernel import modules, series, shadow, variant  # noqa: PLC0415 - start-up time
    from tcpassay.kernel.progress import Building  # noqa: PLC0415 - start-up time

    chosen = _source(source, debian, revision)
    changes: list[shadow.Change] = [*series.read(patch or []), *modules.read(module or [])]
    if coverage and debug:
        raise UserError("`--coverage` and `--debug` exclude each other: build two kernels")
    of = variant.COVERAGE if coverage else variant.DEBUG if debug else variant.PLAIN
    called = name or variant.kernel_name(series.kernel_name(chosen.name, changes), of)
    with _told_apart(if_possible), Building(called, terminal.console(stderr=True)) as progress:
        kernel, new = building.build(
            chosen,
            called,
            users=changes,
            variant=of,
            jobs=jobs or os.cpu_count() or 1,
            say=progress.say,
            stepped=progress.stepped,
        )
    if json_:
        terminal.print_json(kernel.as_json() | {"new": new})
        return
    done = f"built in {kernel.seconds:.0f} s" if new else "built before"
    typer.echo(f"kernel `{kernel.name}`: Linux {kernel.release}, {done}, {kernel.image}")
    if kernel.series:
        typer.echo(f"  with the patches: {', '.join(kernel.series)}")
    if kernel.modules:
        typer.echo(f"  with the controllers: {', '.join(f'module:{name}' for name in kernel.modules)}")
    if kernel.absent:
        typer.echo(f"  features that this version lacks: {', '.join(kernel.absent)}")
    if kernel.contained:
        typer.echo(f"  patches that this version does not need: {', '.join(kernel.contained)}")
    for omitted, lost in shadow.omitted(kernel.patches, kernel.contained).items():
        typer.echo(f"  patch {omitted} does not apply and was omitted: {lost}")


@app.command()
def compare(
    base: Annotated[str, typer.Argument(help="A kernel of `kernel list`.", metavar="BASE")],
    head: Annotated[str, typer.Argument(help="The kernel that is compared with it.", metavar="HEAD")],
    plan: Annotated[
        Path | None,
        typer.Option(
            help="The plan whose cases are run; its substrates are replaced.",
            metavar="PLAN",
            show_default="42 cases of 300 ms over controllers, ECN, losses, queues and options",
        ),
    ] = None,
    seed: SeedOption = None,
    filter_: FilterOption = None,
    jobs: JobsOption = None,
    out: OutOption = None,
    budget: CausesBudgetOption = "60s",
    reach: Annotated[
        str | None,
        typer.Option(
            help="Draw further cases until they execute all changed lines, or until this time (10min) or number of "
            "runs (200) is spent. Both kernels must have counters (`build --coverage`).",
            metavar="TIME|RUNS",
        ),
    ] = None,
    by: Annotated[
        Literal["packets", "metrics"] | None,
        typer.Option(
            help="What makes a pair of runs different: packets, or metrics and findings.",
            show_default="packets if the kernels have the same release, otherwise metrics",
        ),
    ] = None,
    junit: JunitOption = None,
    json_: JsonOption = False,
    force: ForceOption = False,
    resume: ResumeOption = False,
) -> None:
    """Run the same cases on two kernels in virtual time, and report what differs.

    Every difference is caused by the kernels. The smallest settings with which they differ are searched with further
    runs, and the first packet and event that differ are shown. With kernels that have counters it says how many of the
    changed lines the cases executed.

    Exit code 0: no difference. 1: differences. 2: an error in the input. 130: interrupted, or a run did not end.

    Example: `tcpassay kernel compare 6.1 fixed`.
    """
    from tcpassay import output, trees  # noqa: PLC0415 - start-up time
    from tcpassay.isolate import Budget  # noqa: PLC0415 - start-up time
    from tcpassay.run.show import Progress  # noqa: PLC0415 - start-up time
    from tcpassay.trees.comparison import read_plan  # noqa: PLC0415 - start-up time
    from tcpassay.trees.executed import budget_of  # noqa: PLC0415 - start-up time

    output.check(junit, "the JUnit file")
    check_resume(resume, force=force, plan=plan, filter_=filter_, seed=seed)
    folder = out or Path("results") / f"{base}-{head}"
    options = trees.Options(
        jobs or os.cpu_count() or 1,
        seed,
        tuple(filter_ or ()),
        Budget.of(budget),
        force,
        resume,
        None if reach is None else budget_of(reach),
        by,
    )
    wanted = read_plan(folder / "plan.toml" if resume else plan, base, head)
    console = terminal.console(stderr=True)
    with Progress(f"{base} {head}", console) as progress:
        told = trees.compare_trees(base, head, wanted, folder, options, progress)
    tell(told, junit, as_json=json_)


app.command()(bisect)
app.command()(check)
app.command("coverage")(kernel_coverage)


@app.command("list")
def list_(json_: JsonOption = False) -> None:
    """List the built kernels.

    Example: `tcpassay kernel list`.
    """
    from tcpassay.kernel import store  # noqa: PLC0415 - start-up time

    kernels = store.kernels()
    if json_:
        terminal.print_json([kernel.as_json() for kernel in kernels])
        return
    if not kernels:
        typer.echo("No kernel is built; `tcpassay kernel build` builds Debian's 6.1.")
        return
    console = terminal.console()
    grid = terminal.grid("name", "release", "source", "patches and modules", "built")
    for kernel in kernels:
        changes = ", ".join([*kernel.series, *(f"module:{name}" for name in kernel.modules)])
        if console.width >= _TABLE:
            grid.add_row(kernel.name, kernel.release, kernel.source, changes, kernel.built)
            continue
        with_ = f", with {changes}" if changes else ""
        console.print(f"[bold]{kernel.name}[/]  Linux {kernel.release}", highlight=False)
        console.print(
            f"  {kernel.source}{with_}, built {kernel.built.partition('T')[0]}", highlight=False, markup=False
        )
    if console.width >= _TABLE:
        console.print(grid)


@app.command()
def export(
    name: Annotated[str, typer.Argument(help="A kernel of `kernel list`.", metavar="NAME")],
    out: Annotated[
        Path | None,
        typer.Option(help="The file.", metavar="FILE", show_default="kernel-NAME.tar.xz"),
    ] = None,
) -> None:
    """Write a kernel as a file, for a colleague or the cache of a CI: `kernel import` needs no compiler and no source.

    Linux is licensed under GPL-2.0: who passes a kernel on offers its source with it.

    Example: `tcpassay kernel export fixed`.
    """
    from tcpassay import output  # noqa: PLC0415 - start-up time
    from tcpassay.kernel import package  # noqa: PLC0415 - start-up time

    target = out or Path(f"kernel-{name}.tar.xz")
    output.check(target, "the kernel")
    kernel = package.export(name, target)
    typer.echo(f"{target} ({target.stat().st_size / 1e6:.1f} MB): kernel {kernel.words}")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="A file of `kernel export`.", metavar="FILE")],
    name: Annotated[
        str | None, typer.Option(help="The name of the kernel; by default that which it had.")
    ] = None,
    allow_code: Annotated[
        bool,
        typer.Option(
            "--allow-code",
            help="Execute the kernel, which runs with your rights; without it, what the file contains is printed.",
        ),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a kernel of this name.")] = False,
) -> None:
    """Put a kernel of `kernel export` into the store, after it has booted.

    Example: `tcpassay kernel import kernel-fixed.tar.xz --allow-code`.
    """
    from tcpassay.kernel import package  # noqa: PLC0415 - start-up time

    kernel = package.import_(file, name, allow=allow_code, replace_=force)
    typer.echo(f"kernel {kernel.words}, {kernel.image}")


@app.command()
def remove(
    names: Annotated[list[str], typer.Argument(help="Names of kernels (see `list`).", metavar="NAME...")],
) -> None:
    """Remove kernels with all files that were built for them.

    Example: `tcpassay kernel remove fixed`.
    """
    from tcpassay.kernel import store  # noqa: PLC0415 - start-up time

    for name in names:
        store.remove(name)


@contextmanager
def _told_apart(wanted: bool) -> Iterator[None]:
    """If `wanted`, ends the command with exit code 3 instead of 2 when no build can begin."""
    from tcpassay.kernel.source import UnavailableError  # noqa: PLC0415 - start-up time

    try:
        yield
    except UnavailableError as error:
        if not wanted:
            raise
        typer.echo(f"tcpassay: {error}", err=True)
        raise typer.Exit(UNAVAILABLE) from None


def _source(tree: Path | None, debian: str | None, revision: str | None) -> "Source":
    """The source selected by the options. Raises `UserError` if they contradict each other."""
    from tcpassay.kernel import store  # noqa: PLC0415 - start-up time
    from tcpassay.kernel.revision import Revision  # noqa: PLC0415 - start-up time
    from tcpassay.kernel.source import Debian, Tree  # noqa: PLC0415 - start-up time

    if tree and debian:
        raise UserError("`--source` and `--debian` exclude each other")
    if revision and not tree:
        raise UserError("`--revision` needs `--source`, the git repository")
    if tree:
        return Revision(tree, revision) if revision else Tree(tree)
    return Debian(_version(debian or "6.1"), store.cache() / "downloads")


def _version(text: str) -> str:
    parts = text.split(".")
    if len(parts) != 2 or not all(part.isdigit() for part in parts):  # noqa: PLR2004 - major and minor
        raise UserError(f"`--debian {text}`: give the version of the Debian package, as in `6.1` or `6.12`")
    return text
