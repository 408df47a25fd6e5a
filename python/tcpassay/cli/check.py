"""The command `kernel check`. As in `cli/__init__.py`, it contains no rules."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import ForceOption, JobsOption, JsonOption, JunitOption, SeedOption, SeriesOption
from tcpassay.errors import UserError
from tcpassay.pace import Working

if TYPE_CHECKING:
    from tcpassay.trees.states import Builder

FAILED, INTERRUPTED = 1, 130


def check(
    series: Annotated[
        str | None,
        typer.Argument(
            help="With --source: the commits that are in HEAD and not in BASE.", metavar="[BASE..HEAD]"
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(help="A git repository with Linux, or the tree for --patch.", metavar="DIR"),
    ] = None,
    patch: SeriesOption = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            help="The plan whose cases are run; its substrates are replaced.",
            metavar="PLAN",
            show_default="that of `kernel compare`",
        ),
    ] = None,
    script: Annotated[
        list[Path] | None,
        typer.Option(
            help="A packetdrill script that is run, too, or a folder of them; may be given several times.",
            metavar="FILE",
        ),
    ] = None,
    seed: SeedOption = None,
    jobs: JobsOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="results/check")
    ] = None,
    budget: Annotated[
        str,
        typer.Option(
            help="Time (60s) or runs (200) for the search of causes of each change; 0 omits it.",
            metavar="TIME|RUNS",
        ),
    ] = "0",
    coverage: Annotated[
        bool,
        typer.Option(
            "--coverage",
            help="Build the kernels with counters, and say how many changed lines the cases executed.",
        ),
    ] = False,
    junit: JunitOption = None,
    json_: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Compare each commit or patch of a series with the one before it, and print what a reply to the series needs.

    Each kernel is built with only the files compiled that differ, and stays in `kernel list`. A change that cannot be
    built is reported, and the next one is compared with the last that was built.

    Exit code 0: all changes are built and behave as the one before. 1: differences, or a change that cannot be built.
    2: an error in the input. 130: interrupted, or a run did not end.

    Examples: `tcpassay kernel check v6.12..my-branch --source linux --plan plan.toml --script scripts/tcp`;
    `tcpassay kernel check --patch outgoing/ --junit junit.xml`.
    """
    from tcpassay import output  # noqa: PLC0415 - start-up time
    from tcpassay.isolate import Budget  # noqa: PLC0415 - start-up time
    from tcpassay.kernel import variant  # noqa: PLC0415 - start-up time
    from tcpassay.trees import Options  # noqa: PLC0415 - start-up time
    from tcpassay.trees import check as checking  # noqa: PLC0415 - start-up time

    output.check(junit, "the JUnit file")
    material = checking.Material(plan, tuple(script or ()))
    material.plans("base", "head")
    cores = jobs or os.cpu_count() or 1
    options = Options(cores, seed, (), Budget.of(budget), force)
    with Working(terminal.console(stderr=True), "Checking") as status:

        def say(text: str) -> None:
            status.update(f"Checking {text}")

        states, build = _states(series, source, patch, cores, say)
        build.variant = variant.COVERAGE if coverage else variant.PLAIN
        told = checking.check(states, build, material, out or Path("results") / "check", options, say)
    if junit is not None:
        output.write(junit, checking.junit(told), "the JUnit file")
    typer.echo(json.dumps(told.as_json(), indent=2, allow_nan=False) if json_ else checking.reply(told))
    if told.unfinished:
        raise typer.Exit(INTERRUPTED)
    if told.different:
        raise typer.Exit(FAILED)


def _states(
    series: str | None,
    source: Path | None,
    patch: list[Path] | None,
    jobs: int,
    say: Callable[[str], None],
) -> tuple[Sequence[tuple[str, str]], "Builder"]:
    """The states with their titles, and the function that builds one."""
    from tcpassay.kernel import series as patches  # noqa: PLC0415 - start-up time
    from tcpassay.kernel import store  # noqa: PLC0415 - start-up time
    from tcpassay.kernel.revision import Revision  # noqa: PLC0415 - start-up time
    from tcpassay.kernel.source import Debian, Tree  # noqa: PLC0415 - start-up time
    from tcpassay.trees import check as checking  # noqa: PLC0415 - start-up time
    from tcpassay.trees import states  # noqa: PLC0415 - start-up time

    if (series is None) == (not patch):
        raise UserError("give one of: BASE..HEAD with --source, or --patch")
    if patch:
        given = patches.read(patch)
        line = states.patches_line(given)
        tree = Tree(source) if source else Debian("6.1", store.cache() / "downloads")
        build = states.Builder(
            lambda state: (tree, given[: list(line.states).index(state)]),
            jobs,
            say,
            named=patches.kernel_name,
        )
        return [(line.states[0], tree.words), *((name, name) for name in line.states[1:])], build
    if series is None or source is None:
        raise UserError("a check of commits needs BASE..HEAD and --source")
    found = checking.commits(source, series)
    build = states.Builder(lambda state: (Revision(source, state), []), jobs, say, named=patches.kernel_name)
    return [(one, states.commit_text(source, one)) for one in found], build
