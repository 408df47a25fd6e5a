"""The command `kernel bisect`. As in `cli/__init__.py`, it contains no rules."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import JsonOption, SeriesOption
from tcpassay.errors import UserError
from tcpassay.pace import Working

if TYPE_CHECKING:
    from tcpassay.plan.read import Plan
    from tcpassay.trees.behaviour import By
    from tcpassay.trees.bisect import Bisection, History

FAILED, INTERRUPTED = 1, 130


def bisect(
    good: Annotated[
        str | None, typer.Argument(help="With --source: the revision before the change.", metavar="[GOOD]")
    ] = None,
    bad: Annotated[
        str | None, typer.Argument(help="With --source: the revision after the change.", metavar="[BAD]")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(help="A git repository with GOOD and BAD, or the tree for --patch.", metavar="DIR"),
    ] = None,
    patch: SeriesOption = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            help="A kernel of `kernel list`; give at least two in order, the good one first.", metavar="NAME"
        ),
    ] = None,
    case: Annotated[
        str | None,
        typer.Option(
            help="The plan that is run, or DIR:CASE for a case of a result folder.", metavar="PLAN|DIR:CASE"
        ),
    ] = None,
    script: Annotated[
        list[Path] | None,
        typer.Option(help="A packetdrill script that is run; may be given several times.", metavar="FILE"),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="With DIR:CASE: only this seed.")] = None,
    by: Annotated[
        str,
        typer.Option(help="The compared property of the runs: packets, findings or outcome.", metavar="KIND"),
    ] = "packets",
    jobs: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Number of parallel compilers and runs; by default one per core."),
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Find the first commit, patch or kernel that behaves differently.

    A state is a commit, a series of patches or a kernel. The cases are run on the first and on the last state, then on
    states between them, until the earliest state that does not behave like the first state is known. Each build only
    recompiles files that differ; the kernel `bisect` is the last state that was built. States that cannot be built are
    skipped.

    Exit code 0: found. 1: the first and the last state behave the same, or several states remain because skipped ones
    lie between them. 2: an error in the input. 130: interrupted; what is known is printed.

    Example: `tcpassay kernel bisect --patch 1.patch --patch 2.patch --case case.toml`.
    """
    from tcpassay.trees import states  # noqa: PLC0415 - start-up time
    from tcpassay.trees.behaviour import Behaviour  # noqa: PLC0415 - start-up time
    from tcpassay.trees.bisect import bisect as search  # noqa: PLC0415 - start-up time

    cores = jobs or os.cpu_count() or 1
    behaviour = Behaviour(_plan(case, script, seed), _by(by), cores)
    with Working(terminal.console(stderr=True), "Bisecting") as status:

        def say(text: str) -> None:
            status.update(f"Bisecting: {text}")

        history, build = _history(good, bad, source, patch, kernel, cores, say)
        found = search(history, lambda state: behaviour(build(state)), say)

    def named(state: str) -> str:
        return states.commit_text(source, state) if source and good else state

    if json_:
        terminal.print_json(found.as_json() | {"names": [named(state) for state in found.first]})
    else:
        _show(found, named)
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)
    if len(found.first) != 1:
        raise typer.Exit(FAILED)


def _show(found: "Bisection", named: Callable[[str], str]) -> None:
    for step in found.steps:
        typer.echo(f"{step.kind:8}{named(step.state)}")
    if found.interrupted:
        typer.echo(f"Interrupted. {_left(found)}")
        for state in found.first:
            typer.echo(f"  {named(state)}")
        return
    if not found.first:
        typer.echo("The first and the last state behave the same:")
        typer.echo("\n".join(f"  {line}" for line in found.steps[0].shown.splitlines()))
        return
    if len(found.first) > 1:
        typer.echo(
            "One of these is the first that behaves differently; the states between them cannot be built:"
        )
        for state in found.first:
            typer.echo(f"  {named(state)}")
        return
    typer.echo(f"The first that behaves differently: {named(found.first[0])}")
    shown = {step.state: step.shown.splitlines() for step in found.steps}
    for before, after in zip(found.steps[0].shown.splitlines(), shown[found.first[0]], strict=False):
        if before != after:
            typer.echo(f"  before: {before}")
            typer.echo(f"  after:  {after}")


def _left(found: "Bisection") -> str:
    return "One of these is the first that behaves differently:" if found.first else "Nothing is known yet."


def _history(
    good: str | None,
    bad: str | None,
    source: Path | None,
    patch: list[Path] | None,
    kernel: list[str] | None,
    jobs: int,
    say: Callable[[str], None],
) -> "tuple[History, Callable[[str], str]]":
    """The states, and the function that builds one."""
    from tcpassay.kernel import series, store  # noqa: PLC0415 - start-up time
    from tcpassay.kernel.revision import Revision  # noqa: PLC0415 - start-up time
    from tcpassay.kernel.source import Debian, Tree  # noqa: PLC0415 - start-up time
    from tcpassay.trees import states  # noqa: PLC0415 - start-up time
    from tcpassay.trees.bisect import Line  # noqa: PLC0415 - start-up time

    if sum([good is not None, bool(patch), bool(kernel)]) != 1:
        raise UserError("give one of: GOOD and BAD with --source, --patch, or --kernel")
    if kernel:
        if len(set(kernel)) < max(2, len(kernel)):
            raise UserError("`--kernel` is needed at least twice, with different names")
        for name in kernel:
            store.find(name)
        return Line(kernel), states.built
    if patch:
        patches = series.read(patch)
        line = states.patches_line(patches)
        tree = Tree(source) if source else Debian("6.1", store.cache() / "downloads")
        return line, states.Builder(
            lambda state: (tree, patches[: list(line.states).index(state)]), jobs, say
        )
    if good is None or bad is None or source is None:
        raise UserError("a bisection of commits needs GOOD, BAD and --source")
    return states.Commits(source, good, bad), states.Builder(
        lambda state: (Revision(source, state), []), jobs, say
    )


def _plan(case: str | None, script: list[Path] | None, seed: int | None) -> "Callable[[str], Plan]":
    from tcpassay.trees import behaviour  # noqa: PLC0415 - start-up time

    if (case is None) == (not script):
        raise UserError("either --case or --script is needed")
    if script:
        return behaviour.of_scripts(script)
    folder, colon, name = str(case).rpartition(":")
    if colon and Path(folder).is_dir():
        return behaviour.of_case(Path(folder), name, seed)
    if seed is not None:
        raise UserError("`--seed` needs `--case DIR:CASE`; the seeds of a plan are in the plan")
    return behaviour.of_plan(Path(str(case)))


def _by(text: str) -> "By":
    from tcpassay.trees.behaviour import KINDS  # noqa: PLC0415 - start-up time

    if text not in KINDS:
        raise UserError(f"`--by {text}`: allowed are {', '.join(KINDS)}")
    return KINDS[text]
