"""Experiments on the terminal."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from tcpassay import terminal
from tcpassay.experiments import verdict
from tcpassay.experiments.catalogue import Experiment
from tcpassay.experiments.measured import unit
from tcpassay.experiments.readings import READINGS
from tcpassay.experiments.session import Outcome
from tcpassay.experiments.verdict import Verdict

_STYLES: Final = {
    Verdict.REPRODUCED: "green",
    Verdict.SHOWN: "green",
    Verdict.DIRECTION: "yellow",
    Verdict.NOT: "red",
    Verdict.UNKNOWN: "dim",
}


def row(one: Experiment) -> dict[str, object]:
    """An experiment as JSON."""
    return {
        "name": one.name,
        "title": one.told.title,
        "paper": one.told.paper,
        "figure": one.told.figure,
        "file": str(one.plan.file),
        "substrates": list(one.substrates),
        "claims": [
            {"name": claim.name, "place": claim.place, "metric": claim.metric, "paper": claim.paper}
            for claim in one.told.claim
        ],
    }


def experiments(every: Sequence[Experiment], console: Console) -> None:
    """Prints the list of experiments."""
    grid = terminal.grid("experiment", "repeats", "on")
    for one in every:
        author = one.told.paper.split(",", 1)[0]
        grid.add_row(one.name, f"{one.told.figure} of {author}: {one.told.title}", ", ".join(one.substrates))
    console.print(grid)


def outcome(one: Experiment, made: Outcome, console: Console, *, full: bool) -> None:
    """Prints the verdict; `full`: with all claims."""
    said = Text.assemble((f"{made.name}: ", "bold"), (made.verdict, _STYLES[made.verdict]))
    measured = [claim for claim in made.claims if claim.verdict is not Verdict.UNKNOWN]
    good = sum(claim.verdict is Verdict.REPRODUCED for claim in measured)
    said.append(f" ({good} of {len(measured)} measured claims, {made.cpu_s:.1f} s of CPU)")
    console.print(said)
    if made.failed_checks:
        console.print(Text(f"  {made.failed_checks} checks of the plan do not hold", "yellow"))
    if made.unexpected:
        console.print(Text(f"  {made.unexpected} runs did not end as expected", "bold red"))
    if not full:
        return
    grid = terminal.grid("claim", "paper", "measured", "verdict")
    for claim, judged in zip(one.told.claim, made.claims, strict=True):
        of = "1" if claim.relative_to is not None else unit(claim.metric)
        paper = claim.says if claim.paper is None else terminal.number(verdict.amount(claim.paper), of)
        grid.add_row(
            Text(claim.name),
            Text(paper),
            terminal.number(judged.value, of),
            Text(judged.verdict, _STYLES[judged.verdict]),
        )
    console.print(grid)


def readings(console: Console) -> None:
    """Prints the list of readings."""
    grid = terminal.grid("reading", "unit", "meaning")
    for name, one in READINGS.items():
        grid.add_row(name, one.unit, one.doc)
    console.print(grid)
