"""The commands `run` and `replay`. As in `cli/__init__.py`, they contain no rules."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tcpassay import output, terminal
from tcpassay.cli.options import (
    AllowCodeOption,
    FilterOption,
    JobsOption,
    JsonOption,
    JunitOption,
    SeedOption,
    TestbedOption,
)
from tcpassay.errors import Place, Problem, UserError
from tcpassay.messages import Outcome
from tcpassay.plan import document, extends, read
from tcpassay.plan.expand import show as show_value
from tcpassay.plan.read import Plan
from tcpassay.plural import plural
from tcpassay.substrate import substrate_of

if TYPE_CHECKING:
    from tcpassay.run.result import Result

FAILED, INTERRUPTED = 1, 130


def run(
    plan: Annotated[Path | None, typer.Argument(help="The plan, a TOML file.", metavar="PLAN")] = None,
    seed: SeedOption = None,
    strength: Annotated[
        int | None,
        typer.Option(min=2, max=6, help="Use the strategy `t-way` with this strength.", metavar="N"),
    ] = None,
    jobs: JobsOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results.", show_default="results/<name of the plan>")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Continue the plan of this folder.", metavar="DIR")
    ] = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Keep the existing runs and add the new runs of the plan.")
    ] = False,
    retry: Annotated[
        list[str] | None,
        typer.Option(
            help="With --resume or --extend: repeat runs with this outcome (timeout, memory, crashed, failed).",
            metavar="OUTCOME",
        ),
    ] = None,
    filter_: FilterOption = None,
    shuffle: Annotated[
        int | None, typer.Option(min=0, help="Run in a random order derived from this seed.", metavar="SEED")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs without starting them.")] = False,
    executor: Annotated[str, typer.Option(help="Where to run: local, ray, ray://HOST:PORT.")] = "local",
    isolate: Annotated[
        bool,
        typer.Option(
            "--isolate",
            help="Afterwards isolate and explain what the oracles found, and isolate the best cases of a search.",
        ),
    ] = False,
    junit: JunitOption = None,
    json_: JsonOption = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Replace existing results; with --resume, accept results of another version."
        ),
    ] = False,
    testbed: TestbedOption = None,
    allow_code: AllowCodeOption = False,
) -> None:
    """Run a plan: run every case with every seed, call the oracles, evaluate the checks, draw the figures.

    Naming PLAN accepts the code files that it names. Those in a folder that is resumed or extended must have been run
    or accepted before, or need --allow-code.

    Exit code 0: all checks passed and no finding is an error. 1: a check or a run failed, or a finding is an error.
    2: an error in the input. 130: interrupted, the time limit of the plan was reached, or a host of a testbed
    failed whose file says `on_failure = "pause"` (continue with --resume).

    Example: `tcpassay run plan.toml --out results/first`.
    """
    from tcpassay.run import show  # noqa: PLC0415 - start-up time
    from tcpassay.run.choose import choose  # noqa: PLC0415 - start-up time
    from tcpassay.run.execute import execute  # noqa: PLC0415 - start-up time
    from tcpassay.run.session import Beginning, Session  # noqa: PLC0415 - start-up time
    from tcpassay.trust import ask  # noqa: PLC0415 - start-up time

    ask.testbeds(testbed or ())
    runner = _executor(executor, jobs)  # the arguments are checked before anything is written
    again = _outcomes(retry or ())
    output.check(junit, "the JUnit file")
    _refuse_json(isolate=isolate, json_=json_)
    if resume is not None:
        _refuse_with_resume(
            plan=plan,
            seed=seed,
            strength=strength,
            out=out,
            extend=extend,
            filter=filter_,
            shuffle=shuffle,
            dry_run=dry_run,
        )
        ask.folder(resume, allow=allow_code)
        session = Session.resume(resume, force=force, retry=again)
        _ready(session.plan)
        runner = _alone(runner, executor, session.plan)
    else:
        if plan is None:
            raise UserError("the plan is missing: `tcpassay run PLAN`, or `tcpassay run --resume DIR`")
        if again and not extend:
            raise UserError("`--retry` needs --resume or --extend: a new plan has no runs to repeat")
        wanted = _read(plan, strength, seed)
        if not dry_run:
            wanted = ask.plan(wanted, lambda: _read(plan, strength, seed))
        if filter_ and wanted.spec.strategy.kind == "search":
            raise UserError(
                f"`--filter`: the cases of the strategy `{wanted.spec.strategy.kind}` are not known before it runs; "
                "change the axes of the plan"
            )
        how = Beginning(choose(wanted, filter_ or ()), shuffle, again)
        if dry_run:
            _list(wanted, how.chosen, json_=json_)
            return
        _ready(wanted)
        runner = _alone(runner, executor, wanted)
        folder = out or Path("results") / wanted.spec.name
        if extend:
            ask.folder(folder, allow=allow_code)
            session = Session.extend(wanted, folder, how, force=force)
        else:
            session = Session.begin(wanted, folder, how, replace_=force)
    if session.damaged:
        told = f"{session.damaged} finished runs are damaged in the journal and are repeated"
        typer.echo(f"tcpassay: {session.folder.path / 'journal.sqlite'}: {told}", err=True)
    with session, show.Progress(session.plan.spec.name, terminal.console(stderr=True)) as progress:
        result = execute(session, runner, progress)
    _told(result, junit, json_=json_)
    finished = result.status not in show.UNFINISHED
    _isolate(result if isolate and finished else None, jobs)
    if not finished or not result.ok:
        raise typer.Exit(FAILED if finished else INTERRUPTED)


def _told(result: "Result", junit: Path | None, *, json_: bool) -> None:
    """Writes the result to standard output and to the JUnit file."""
    from tcpassay.run import show  # noqa: PLC0415 - start-up time
    from tcpassay.run.junit import junit as xml  # noqa: PLC0415 - start-up time
    from tcpassay.run.result import as_text  # noqa: PLC0415 - start-up time

    if junit is not None:
        output.write(junit, xml(result), "the JUnit file")
    if json_:
        for part in as_text(result.as_json()):
            typer.echo(part, nl=False)
    else:
        show.summary(result, terminal.console())


def _refuse_json(*, isolate: bool, json_: bool) -> None:
    if isolate and json_:
        raise UserError("`--isolate` prints text; with `--json` use `tcpassay isolate DIR --json` afterwards")


def _isolate(result: "Result | None", jobs: int | None) -> None:
    """Isolates and explains the findings of a plan, and isolates the best cases of a search for a metric."""
    if result is None:
        return
    from tcpassay.explain import explain  # noqa: PLC0415 - start-up time
    from tcpassay.explain.show import show as show_events  # noqa: PLC0415 - start-up time
    from tcpassay.isolate import Options  # noqa: PLC0415 - start-up time
    from tcpassay.isolate import isolate as isolated  # noqa: PLC0415 - start-up time
    from tcpassay.isolate.best import names_of  # noqa: PLC0415 - start-up time
    from tcpassay.isolate.show import show as show_causes  # noqa: PLC0415 - start-up time

    folder, console = result.folder.path, terminal.console()
    options = Options(jobs=jobs or os.cpu_count() or 1)
    for name in names_of(result.search):
        show_causes(isolated(folder, name, options), console)
    if any(run.findings for run in result.runs):
        found = isolated(folder, None, options)
        show_causes(found, console)
        for cause in found.causes:
            if cause.complete:
                show_events(explain(folder, f"{cause.case}-{cause.seed}/{cause.effect.oracle}"), console)


def replay(
    folder: Annotated[Path, typer.Argument(help="Results of a plan.", metavar="DIR")],
    case: Annotated[str, typer.Argument(help="The id of a case, or its first characters.", metavar="CASE")],
    seed: Annotated[int | None, typer.Option(min=0, help="The seed, if the case has several.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the recording with its event log to this folder.", metavar="DIR"),
    ] = None,
    packets: Annotated[bool, typer.Option("--packets", help="Also capture packets.")] = False,
    json_: JsonOption = False,
    testbed: TestbedOption = None,
    allow_code: AllowCodeOption = False,
) -> None:
    """Repeat one run from its result folder, compare it with the original, and call the oracles.

    Exit code 0: the runs are identical. 1: they differ. 2: an error in the input.

    Example: `tcpassay replay results/two-controllers 1a2b --seed 2`.
    """
    from tcpassay.judge import folders  # noqa: PLC0415 - start-up time
    from tcpassay.judge import show as findings  # noqa: PLC0415 - start-up time
    from tcpassay.run.replay import replay as again  # noqa: PLC0415 - start-up time
    from tcpassay.run.replay import words  # noqa: PLC0415 - start-up time
    from tcpassay.trust import ask  # noqa: PLC0415 - start-up time

    ask.testbeds(testbed or ())
    ask.folder(folder, allow=allow_code)
    done = again(folder, case, seed, out, packets=packets)
    if json_:
        terminal.print_json(done.as_json())
    else:
        console = terminal.console()
        findings.show(
            folders.Judged(done.findings, int(done.outcome == Outcome.DONE), 0, [], notes=done.notes), console
        )
        colour, word = ("green", "the same run") if done.same else ("bold red", "NOT the same run")
        if done.damaged:
            word = "the same run, but its recording was changed"
        elif done.differing:
            word = "the same run, in a recording of another version"
        values = ", ".join(f"{name}={show_value(value)}" for name, value in done.varied.items())
        console.print(f"case {done.case} seed {done.seed} {values}", markup=False, highlight=False)
        console.print(f"[{colour}]{word}[/]: {words(done)}", highlight=False, soft_wrap=True)
        if done.folder:
            console.print(f"Recording: {done.folder}", highlight=False, soft_wrap=True)
    if not done.same:
        raise typer.Exit(FAILED)


def _executor(text: str, jobs: int | None) -> Any:
    if text == "local":
        from tcpassay.run.execute import Local  # noqa: PLC0415 - start-up time

        return Local(jobs or os.cpu_count() or 1)
    if text == "ray" or text.startswith("ray://"):
        from tcpassay.run.on_ray import OnRay  # noqa: PLC0415 - start-up time

        return OnRay(text, jobs)
    raise UserError(f"`--executor {text}`: allowed are `local`, `ray` and `ray://HOST:PORT`")


def _alone(runner: Any, text: str, plan: Plan) -> Any:
    """The executor of a plan: `runner`, or a single local job if parallel runs would influence each other."""
    from tcpassay.run.execute import Local  # noqa: PLC0415 - start-up time

    if not _in_real_time(plan):
        return runner
    if text != "local":
        raise UserError(
            f"`--executor {text}`: `host` and `remote` run one case at a time from this machine; use `--executor local`"
        )
    return Local(1)


def _in_real_time(plan: Plan) -> bool:
    """Whether parallel runs would influence each other's measurements."""
    return any(substrate_of(name).real_time for name in plan.spec.substrates)


def _ready(plan: Plan) -> None:
    """Checks that the substrates of the plan are available; otherwise raises a `UserError`."""
    for index, name in enumerate(plan.spec.substrates):
        try:
            substrate_of(name).ready()
        except UserError as error:
            place = _place_of_substrate(plan, index)
            raise UserError.several(
                one if one.place else Problem(f"`substrates[{index}]` = `{name}`: {one.message}", place)
                for one in error.problems
            ) from None


def _place_of_substrate(plan: Plan, index: int) -> Place:
    """The line of the plan that names a substrate."""
    try:
        return extends.load(document.read_text(plan.file), plan.file).place("substrates", index)
    except UserError:  # the file was removed or changed meanwhile
        return Place(plan.file)


def _read(plan: Path, strength: int | None, seed: int | None) -> Plan:
    """Reads the plan and prints its notes."""
    wanted = read.read_file(plan, strength)
    for note in wanted.notes:
        typer.echo(f"note: {note}", err=True)
    return wanted if seed is None else wanted.with_seeds([seed])


def _outcomes(names: Iterable[str]) -> "frozenset[Outcome]":
    allowed = (Outcome.TIMEOUT, Outcome.MEMORY, Outcome.CRASHED, Outcome.FAILED)
    if wrong := [name for name in names if name not in allowed]:
        raise UserError(f"`--retry {wrong[0]}`: allowed are {', '.join(allowed)}")
    return frozenset(Outcome(name) for name in names)


def _refuse_with_resume(**given: Any) -> None:
    for name, value in given.items():
        if value is not None and value is not False:
            what = "a plan" if name == "plan" else f"--{name.replace('_', '-')}"
            raise UserError(f"--resume uses the settings of the folder and cannot be combined with {what}")


def _list(plan: Plan, chosen: frozenset[str] | None, *, json_: bool) -> None:
    """Prints the runs of a plan."""
    from tcpassay.plan.expand import show as text  # noqa: PLC0415 - start-up time
    from tcpassay.run.result import as_text  # noqa: PLC0415 - start-up time

    cases = [case for case in plan.cases if chosen is None or case.id in chosen]
    runs = len(cases) * len(plan.spec.seeds) * plan.spec.repetitions
    if json_:
        listed = [{"case": c.id, "expect": c.expect, "varied": c.varied, "triples": c.triples} for c in cases]
        about = {"plan": plan.spec.name, "runs": runs, "seeds": list(plan.spec.seeds)}
        typer.echo(
            "".join(as_text(about | {"repetitions": plan.spec.repetitions, "cases": listed})), nl=False
        )
        return
    grid = terminal.grid()
    names = list(dict.fromkeys(name for case in cases for name in case.varied))
    for name in ("case", *names):
        grid.add_column(name, overflow="fold")
    for case in cases:
        grid.add_row(case.id, *(text(case.varied[name]) if name in case.varied else "" for name in names))
    console = terminal.console()
    console.print(grid)
    times = f" x {len(plan.spec.seeds)} seeds" if len(plan.spec.seeds) > 1 else ""
    times += f" x {plan.spec.repetitions} repetitions" if plan.spec.repetitions > 1 else ""
    product = f"{plural(len(cases), 'case')}{times} = " if times else ""
    console.print(product + plural(runs, "run"), highlight=False)


def add(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    for command in (run, replay):
        app.command()(command)
