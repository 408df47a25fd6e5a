"""Rankings as text."""

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape

from tcpassay.compare.between import Ranking, Rankings
from tcpassay.terminal import number


def show_between(
    rankings: Rankings, console: Console, units: Mapping[str, str], *, everything: bool = False
) -> None:
    """Prints for each level and metric which values are best, and which are better than which.

    `everything` also prints each pair with its effect.
    """
    confidence = f"{100 * rankings.confidence:g} %"
    correction = (
        "" if rankings.correction == "none" else f", corrected for several metrics ({rankings.correction})"
    )
    console.print(
        f"{escape(rankings.between)} in {escape(rankings.folder)}: better at a confidence of {confidence} "
        f"for each two values{correction}",
        highlight=False,
    )
    level = None
    for ranking in rankings.rankings:
        if not ranking.medians:
            continue
        if ranking.level != level:
            level = ranking.level
            if rankings.by:
                console.print(f"\n[bold]{escape(rankings.by)} = {escape(level)}[/]", highlight=False)
        _ranking(ranking, console, units.get(ranking.metric, ""), everything=everything)


def _ranking(ranking: Ranking, console: Console, unit: str, *, everything: bool) -> None:
    best = ", ".join(map(escape, ranking.best))
    if len(ranking.best) == len(ranking.medians):
        said = "no significant difference"
    elif not ranking.best:
        said = "no value is at least as good as all others"
    else:
        said = f"best: [green]{best}[/]"
    console.print(f"{ranking.metric}: {said}", highlight=False)
    medians = ", ".join(
        f"{escape(value)} {number(median, unit)}" for value, median in ranking.medians.items()
    )
    console.print(f"  medians: {medians}", highlight=False)
    for value in ranking.medians:
        worse = [one.than for one in ranking.better if one.value == value]
        if worse:
            console.print(
                f"  {escape(value)} is better than {', '.join(map(escape, worse))}", highlight=False
            )
    if everything:
        for one in ranking.better:
            console.print(
                f"    {escape(one.value)} than {escape(one.than)}: {escape(one.effect)}, p {one.p:.2g}",
                highlight=False,
            )
    if ranking.untested:
        console.print(f"  too few pairs for a test: {escape('; '.join(ranking.untested))}", highlight=False)
