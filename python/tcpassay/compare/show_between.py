"""Rankings as text."""

from collections.abc import Mapping
from typing import Final

from rich.console import Console
from rich.markup import escape

from tcpassay import terminal
from tcpassay.compare.between import Ranking, Rankings
from tcpassay.compare.effect import Verdict
from tcpassay.plural import few, plural
from tcpassay.terminal import number

_MOST: Final = 3
"""Undecided pairs of values that are listed below the values of a metric."""
_LONG: Final = 12
"""A longer value is not repeated in the heading of a column."""


def show_between(rankings: Rankings, console: Console, units: Mapping[str, str]) -> None:
    """Prints for each level and metric the values, the best median first, each with its difference from the first."""
    corrected = ""
    if rankings.correction != "none":
        metrics = len({one.metric for one in rankings.rankings})
        beside = f" and {plural(rankings.pairs, 'pair')} of values" if rankings.pairs > 1 else ""
        equal = "" if rankings.tests == metrics * rankings.pairs else " (equal values need none)"
        tests = f": {plural(rankings.tests, 'test')}{equal}" if rankings.pairs > 1 and rankings.tests else ""
        corrected = f", corrected for {plural(metrics, 'metric')}{beside}{tests} ({rankings.correction})"
    console.print(
        f"{escape(rankings.between)} in {escape(rankings.folder)}; metrics: {rankings.metrics}; "
        f"tests at {100 * rankings.confidence:g} %{corrected}",
        highlight=False,
    )
    if rankings.over:
        console.print(
            "[yellow]note:[/] a seed counts once, with the mean (of positive values the geometric one, because the "
            f"effects are ratios) over all values of {escape(few(rankings.over))}; `--by` or `--where` separates them",
            highlight=False,
        )
    level = None
    for ranking in rankings.rankings:
        if not ranking.medians:
            continue
        if ranking.level != level:
            level = ranking.level
            if rankings.by:
                said = level if ", " in rankings.by else f"{rankings.by} = {level}"
                console.print(f"\n[bold]{escape(said)}[/]", highlight=False)
        _ranking(ranking, console, units.get(ranking.metric, ""))


def _ranking(ranking: Ranking, console: Console, unit: str) -> None:
    first = next(iter(ranking.medians))
    if len(ranking.best) == 1:
        said = f"best: [green]{escape(first)}[/]"
    elif ranking.undecided:
        said = "[yellow]the runs cannot decide which is best[/]"
    elif all(one.verdict in {Verdict.IDENTICAL, Verdict.ALIKE} for one in ranking.against):
        said = "no relevant difference"
    elif any(one.verdict is Verdict.DIFFERS for one in ranking.against):
        said = f"best median: {escape(first)} (one seed each, so that there is nothing to test)"
    else:
        said = f"none is better than {', '.join(map(escape, ranking.best))}"
    console.print(f"{ranking.metric}: {said}", highlight=False)
    named = escape(first) if len(first) <= _LONG else "the first"
    grid = terminal.grid("  value", "median", f"against {named}", "p", "verdict")
    for column in (0, 1, 3):
        grid.columns[column].no_wrap = True
    grid.add_row(f"  {escape(first)}", number(ranking.medians[first], unit), "", "", "")
    for one in ranking.against:
        needed = f", about {one.needed} {one.unit}s are needed" if one.needed is not None else ""
        p = "" if one.p is None else f"{one.p:.2g}"
        grid.add_row(
            f"  {escape(one.value)}",
            number(ranking.medians[one.value], unit),
            one.effect,
            p,
            f"{one.verdict}{needed}",
        )
    console.print(grid)
    hidden = ranking.hidden
    for words in hidden[:_MOST]:
        console.print(f"  undecided: {escape(words)}", highlight=False)
    if len(hidden) > _MOST:
        console.print(
            f"  undecided: {plural(len(hidden) - _MOST, 'further pair')} of values", highlight=False
        )
