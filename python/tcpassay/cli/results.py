"""The commands about results: `judge`, `oracles`, `compare`. As in `cli/__init__.py`, no rule of their own."""

from pathlib import Path
from typing import Annotated

import typer

from tcpassay import terminal
from tcpassay.cli.options import JsonOption
from tcpassay.errors import UserError

FAILED = 1
USER = 2


def judge(
    folder: Annotated[Path, typer.Argument(help="Results of a plan, or one recording.", metavar="DIR")],
    oracle: Annotated[
        list[str] | None, typer.Option(help="Ask only this one; may be given several times.", metavar="NAME")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Ask the oracles about recordings that have an event log; exit code 1 when they find something."""
    from tcpassay.judge import folders, show  # noqa: PLC0415 - polars is most of the start-up time

    judged = folders.judge_folder(folder, oracles=oracle)
    if json_:
        terminal.print_json(judged.as_json())
    else:
        show.show(judged, terminal.console())
    if judged.findings:
        raise typer.Exit(FAILED)


def oracles(
    json_: JsonOption = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/oracles.md.")] = False,
) -> None:
    """List the oracles: what each asserts, why, on what evidence, and how it can be wrong."""
    from tcpassay.judge import registry, show  # noqa: PLC0415 - start-up time

    if markdown:
        typer.echo(registry.markdown(), nl=False)
    elif json_:
        terminal.print_json([one.as_json() for one in registry.ORACLES.values()])
    else:
        show.oracles(terminal.console())


def compare(
    a: Annotated[Path, typer.Argument(help="Results before, or of one thing.", metavar="DIR")],
    b: Annotated[Path, typer.Argument(help="Results after, or of the other thing.", metavar="DIR")],
    threshold: Annotated[
        str,
        typer.Option(help="A metric regresses when it is significantly worse by this much.", metavar="SHARE"),
    ] = "5%",
    each: Annotated[
        str | None,
        typer.Option(help="Any single run that is worse by this much is a regression, too.", metavar="SHARE"),
    ] = None,
    confidence: Annotated[str, typer.Option(help="Of the intervals and the tests.", metavar="SHARE")] = "95%",
    correction: Annotated[
        str, typer.Option(help="For the number of metrics: holm, bh or none.", metavar="METHOD")
    ] = "holm",
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Compare only this one; may be given several times.", metavar="NAME"),
    ] = None,
    where_a: Annotated[
        list[str] | None, typer.Option(help="Only runs of the first with this value.", metavar="PATH=VALUE")
    ] = None,
    where_b: Annotated[
        list[str] | None, typer.Option(help="Only runs of the second with this value.", metavar="PATH=VALUE")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="A parameter that does not count in pairing.", metavar="PATH")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show also metrics that do not differ.")] = False,
    unpaired: Annotated[
        bool,
        typer.Option(
            "--allow-unpaired", help="Runs of one side alone, and runs that were not done, are no error."
        ),
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Compare two results, run by run: runs with the same parameters and the same seed are a pair.

    Runs on the model and on `kernel` are deterministic: first it is said how many pairs are identical, which differ,
    and what these have in common. Statistics over all pairs follow. Metrics whose definition depends on [collect] are
    left out where it differs.

    Exit code 0: no regression. 1: the second result is a regression: a metric is significantly worse, a finding is new,
    a run broke off, or deterministic runs of the same parameters differ. 2: something cannot be compared: a damaged
    file, an unknown metric, runs of one side alone (but see --allow-unpaired).
    """
    from tcpassay import compare as comparing  # noqa: PLC0415 - start-up time
    from tcpassay.plan import table  # noqa: PLC0415 - start-up time
    from tcpassay.results import load  # noqa: PLC0415 - start-up time

    options = comparing.Options(
        confidence=_share("--confidence", confidence, most=0.9999),
        correction=comparing.method(correction),
        threshold=_share("--threshold", threshold),
        each=None if each is None else _share("--each", each),
        metrics=frozenset(metric) if metric else None,
    )
    sides = comparing.Sides(
        _where("--where-a", where_a), _where("--where-b", where_b), frozenset(ignore or ())
    )
    comparison = comparing.compare(load(a), load(b), options, sides)
    if json_:
        terminal.print_json(comparison.as_json())
    else:
        units = {name: metric.unit for name, metric in table.metrics().items()}
        comparing.show(comparison, terminal.console(), units, everything=everything)
    if comparison.problems or (comparison.incomplete and not unpaired):
        raise typer.Exit(USER)
    if comparison.regressions:
        raise typer.Exit(FAILED)


def add(app: typer.Typer) -> None:
    """Make them commands of `app`."""
    for command in (judge, oracles, compare):
        app.command()(command)


def _share(option: str, text: str, most: float = 1e9) -> float:
    number = text.removesuffix("%").strip()
    try:
        share = float(number) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= most:
        raise UserError(f"`{option} {text}`: give a share as `5%` or `0.05`, at most {100 * most:g}%")
    return share


def _where(option: str, texts: list[str] | None) -> dict[str, str]:
    made = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UserError(f"`{option} {text}`: give a parameter and its value, as in `stack.cc=cubic`")
        made[name] = value
    return made
