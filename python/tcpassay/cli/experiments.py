"""The commands `experiments list`, `run`, `pages` and `readings`. As in `cli/__init__.py`, they contain no rules."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import JsonOption
from tcpassay.cli.run import FAILED, INTERRUPTED
from tcpassay.errors import UserError
from tcpassay.guard import took_all

if TYPE_CHECKING:
    from tcpassay.experiments.session import Outcome

app = typer.Typer(name="experiments", no_args_is_help=True, help="Repeat the experiments of the papers.")

OUT = Path("results") / "experiments"
PlansOption = Annotated[
    Path | None,
    typer.Option("--plans", help="The folder of the plans.", metavar="DIR", show_default="plans/papers"),
]
OutOption = Annotated[Path, typer.Option(help="Folder for the results.", metavar="DIR")]
PagesOption = Annotated[
    Path | None,
    typer.Option(
        "--pages",
        help="Also write a page per experiment, as in docs/experiments, into this folder.",
        metavar="DIR",
    ),
]


@app.command("list")
def list_(plans: PlansOption = None, json_: JsonOption = False) -> None:
    """List the experiments: name, what it repeats, substrates.

    Example: `tcpassay experiments list`.
    """
    from tcpassay.experiments import catalogue, show  # noqa: PLC0415 - start-up time

    every = catalogue.every(catalogue.folder(plans))
    if json_:
        terminal.print_json([show.row(one) for one in every])
    else:
        show.experiments(every, terminal.console())


@app.command()
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Experiments, as `experiments list` names them, or the files of plans.", metavar="NAME"
        ),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="All experiments.", show_default=False)] = False,
    substrate: Annotated[str, typer.Option(help="model or kernel.", metavar="NAME")] = "model",
    out: OutOption = OUT,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Number of parallel runs; by default one per core.")
    ] = None,
    pages: PagesOption = None,
    plans: PlansOption = None,
    json_: JsonOption = False,
) -> None:
    """Run experiments and compare their numbers with those of the papers.

    Exit code 0: all runs ended as expected and all checks of the plans hold. A claim that is not reproduced is a
    result, not an error. 1: a run or a check failed. 2: an error in the input. 130: interrupted; the outcomes of the
    completed experiments are printed and kept.

    Example: `tcpassay experiments run cubic-sawtooth`.
    """
    from tcpassay.experiments import catalogue, page, session, show  # noqa: PLC0415 - start-up time
    from tcpassay.run.show import Progress  # noqa: PLC0415 - start-up time
    from tcpassay.substrate import substrate_of  # noqa: PLC0415 - start-up time
    from tcpassay.trust import ask  # noqa: PLC0415 - start-up time

    if bool(names) == all_:
        raise UserError("name experiments, or give `--all`: `tcpassay experiments list` lists them")
    if substrate not in {catalogue.MODEL, catalogue.KERNEL}:
        raise UserError(f"`--substrate {substrate}`: allowed are {catalogue.MODEL} and {catalogue.KERNEL}")
    files = bool(names) and all(name.endswith(".toml") and Path(name).is_file() for name in names or ())
    place = Path() if files else catalogue.folder(plans)
    where: catalogue.Where = "kernel" if substrate == catalogue.KERNEL else "model"
    chosen = [catalogue.experiment(place, name) for name in names or catalogue.names(place)]
    if all_:
        chosen = [one for one in chosen if where in one.substrates]
    for one in chosen:
        ask.plan(one.on(where))  # errors in all plans are found before the first run
    substrate_of(where).ready()
    outcomes: list[session.Outcome] = []

    def ran() -> Iterator[session.Outcome]:
        for one in chosen:
            with Progress(one.name, terminal.console(stderr=True)) as progress:
                outcome = session.run(one, where, out, jobs or os.cpu_count() or 1, progress)
            if not json_:
                show.outcome(one, outcome, terminal.console(), full=not all_)
            yield outcome

    complete = took_all(ran(), outcomes.append)
    if pages is not None and complete:
        page.write(catalogue.every(place), out, pages)
    if json_:
        terminal.print_json([session.OUTCOME.dump_python(one, mode="json") for one in outcomes])
    _end(outcomes, [one.name for one in chosen[len(outcomes) :]])


def _end(outcomes: "list[Outcome]", left: list[str]) -> None:
    """Ends the command with the exit code of its outcomes; `left` are experiments that were not completed."""
    if left:
        typer.echo(f"interrupted; not completed: {', '.join(left)}", err=True)
        raise typer.Exit(INTERRUPTED)
    if not all(outcome.ok for outcome in outcomes):
        raise typer.Exit(FAILED)


@app.command()
def pages(
    docs: Annotated[Path, typer.Argument(help="The folder of the pages.", metavar="DIR")] = Path(
        "docs/experiments"
    ),
    out: OutOption = OUT,
    plans: PlansOption = None,
) -> None:
    """Write the page of each experiment that was run, and the index of all experiments.

    Example: `tcpassay experiments pages --pages docs/experiments`.
    """
    from tcpassay.experiments import catalogue, page  # noqa: PLC0415 - start-up time

    for file in page.write(catalogue.every(catalogue.folder(plans)), out, docs):
        typer.echo(str(file))


@app.command()
def readings(json_: JsonOption = False) -> None:
    """List the readings: further numbers, not metrics, that experiments take from recordings.

    Example: `tcpassay experiments readings`.
    """
    from tcpassay.experiments import show  # noqa: PLC0415 - start-up time
    from tcpassay.experiments.readings import READINGS  # noqa: PLC0415 - start-up time

    if json_:
        rows = [{"name": name, "unit": one.unit, "doc": one.doc} for name, one in READINGS.items()]
        terminal.print_json(rows)
    else:
        show.readings(terminal.console())
