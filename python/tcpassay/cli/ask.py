"""The command `ask`. As in `cli/__init__.py`, it contains no rules."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tcpassay import output, terminal
from tcpassay.cli.options import ForceOption, JobsOption, JsonOption, pairs, share
from tcpassay.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tcpassay.asking import Answered
    from tcpassay.plan.read import Plan
    from tcpassay.results import Results

NONE, UNDECIDED = 1, 3


def ask(
    plan: Annotated[
        Path,
        typer.Argument(help="A plan, or the name of a start of `init`: rack or wan.", metavar="PLAN|START"),
    ],
    choose: Annotated[
        list[str] | None,
        typer.Option(
            help="The parameter or group to choose a value of; several are chosen together.",
            metavar="PATH",
            show_default="the only one, or the controller",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="The metric that decides.", metavar="NAME", show_default="the first of the plan"),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            help="A condition that the answer must meet, as `saturation >= 90%`; may be given several times.",
            metavar="CONDITION",
        ),
    ] = None,
    confidence: Annotated[
        str, typer.Option(help="The confidence of all statements of the answer together.", metavar="SHARE")
    ] = "95%",
    relevant: Annotated[str, typer.Option(help="A difference that does not matter.", metavar="SHARE")] = "1%",
    budget: Annotated[int, typer.Option(help="The largest number of runs.", min=1, metavar="RUNS")] = 2000,
    seconds: Annotated[
        float, typer.Option("--time", help="After this real time in seconds no further batch begins.", min=0)
    ] = 600.0,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="With a start: another value of a setting.", metavar="PATH=VALUE"),
    ] = None,
    jobs: JobsOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="results/NAME-ask")
    ] = None,
    force: ForceOption = False,
    json_: JsonOption = False,
) -> None:
    """Answer which value of a parameter is best, with as many seeds as that takes.

    It runs the cases of the plan with more and more seeds until one value is best, until the best ones differ by less
    than what matters, or until the budget ends; a value to which another is better runs no further. It answers in a
    paragraph, a table and a figure. The confidence holds for all looks at the results together, and for the conditions
    of `--require`. Exit code 0: answered. 1: no value meets the conditions. 2: an error in the input. 3: the budget did
    not suffice.

    Example: `tcpassay ask rack --set link.rate=25Gbit --require 'saturation >= 90%'`.
    """
    from tcpassay import asking, conditions  # noqa: PLC0415 - start-up time
    from tcpassay.plan import read  # noqa: PLC0415 - start-up time
    from tcpassay.trust import ask as trust  # noqa: PLC0415 - start-up time

    file = _file(plan, setting, out)
    wanted = read.read_file(file)
    least = share("--confidence", confidence, 0.9999)
    if least <= 0.5:  # noqa: PLR2004 - a coin has it
        raise UserError(f"`--confidence {confidence}`: give a share above 50 %")
    wished = conditions.parsed(require or (), wanted)
    wish = asking.Question((), "", least, share("--relevant", relevant, 1.0), budget, seconds, wished)
    question = asking.understood(wanted, ",".join(choose or []).split(",") if choose else [], metric, wish)
    asking.plan_file(wanted)  # before anything runs
    folder = out or Path("results") / f"{wanted.spec.name}-ask"
    trust.plan(wanted)
    batches = _Batches(wanted, folder, jobs or os.cpu_count() or 1, force=force)
    answer = asking.answered(wanted, question, batches.run)
    figure = _figure(answer, folder)
    if json_:
        terminal.print_json(answer.as_json())
    else:
        _told(answer, folder, figure, file)
    if answer.ending is asking.Ending.BUDGET:
        raise typer.Exit(UNDECIDED)
    if answer.ending is asking.Ending.NONE:
        raise typer.Exit(NONE)


def _file(plan: Path, settings: list[str] | None, out: Path | None) -> Path:
    """The file of the plan, or that of a start, which is written first, into a folder of its own beside the results."""
    from tcpassay import starting  # noqa: PLC0415 - start-up time

    if plan.exists() or str(plan) not in starting.STARTS:
        if settings:
            raise UserError("`--set` belongs to a start of `init`; a plan has its settings in the file")
        return plan
    said = pairs("--set", settings, example="link.rate=25Gbit")
    results = out or Path("results") / f"{plan}-ask"
    return starting.written(str(plan), results.with_name(f"{results.name}-plan"), said, replace=True)[0]


class _Batches:
    """Makes the runs of the first n seeds, in the folder of the runs before."""

    def __init__(self, plan: "Plan", folder: Path, jobs: int, *, force: bool) -> None:
        self._plan = plan
        self._folder = folder
        # Runs in real time would influence each other.
        real = any(name.partition(":")[0] in {"host", "remote"} for name in plan.spec.substrates)
        self._jobs = 1 if real else jobs
        self._force = force
        self._begun = False

    def run(self, seeds: int, stopped: "Mapping[str, int]") -> "Results":
        """The results with the seeds 1 to `seeds`, of `stopped` cases up to the one given there."""
        from tcpassay import asking  # noqa: PLC0415 - start-up time
        from tcpassay.plan import read  # noqa: PLC0415 - start-up time
        from tcpassay.results import load  # noqa: PLC0415 - start-up time
        from tcpassay.run import show  # noqa: PLC0415 - start-up time
        from tcpassay.run.execute import Local, execute  # noqa: PLC0415 - start-up time
        from tcpassay.run.session import Beginning, Session  # noqa: PLC0415 - start-up time

        file = asking.plan_file(self._plan)
        output.write(file, asking.plan_text(self._plan, seeds), "the plan")
        wanted = read.read_file(file)
        if self._begun:
            session = Session.extend(wanted, self._folder, Beginning(stopped=stopped), force=False)
        else:
            session = Session.begin(wanted, self._folder, Beginning(), replace_=self._force)
        self._begun = True
        with session, show.Progress(wanted.spec.name, terminal.console(stderr=True)) as progress:
            result = execute(session, Local(self._jobs), progress)
        if result.status in show.UNFINISHED:
            raise typer.Exit(130)
        return load(self._folder)


def _figure(answer: "Answered", folder: Path) -> Path:
    """Draws the metric by the candidates; two factors are axis and group."""
    from tcpassay import levels  # noqa: PLC0415 - start-up time
    from tcpassay.figures import measured, style  # noqa: PLC0415 - importing matplotlib takes longest
    from tcpassay.results import load  # noqa: PLC0415 - start-up time

    names = answer.question.factors
    wanted = measured.Wanted(answer.question.metric, names[-1], names[0] if len(names) > 1 else None, "box")
    with style.styled():
        drawn = measured.draw(levels.measured(load(folder).runs), wanted)
        files = style.save(drawn.figure, style.FORMATS)
    for suffix, content in files.items():
        output.write(folder / "figures" / f"answer.{suffix}", content, "the figure")
    return folder / "figures" / "answer.pdf"


def _told(answer: "Answered", folder: Path, figure: Path, file: Path) -> None:
    from tcpassay import compare  # noqa: PLC0415 - start-up time
    from tcpassay.asking import Ending  # noqa: PLC0415 - start-up time
    from tcpassay.interface import METRICS  # noqa: PLC0415 - start-up time

    console = terminal.console()
    typer.echo(answer.text)
    typer.echo()
    if answer.ending is not Ending.NONE:
        compare.show_between(answer.rankings, console, {name: one.unit for name, one in METRICS.items()})
    for one in answer.earlier:
        typer.echo(f"  {one.text}")
    if answer.beside is not None:
        typer.echo()
        compare.show_between(answer.beside, console, {name: one.unit for name, one in METRICS.items()})
    typer.echo(f"Figure:  {figure}")
    typer.echo(f"Results: {folder}")
    typer.echo(f"Plan:    {file}")


def add(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(ask)
