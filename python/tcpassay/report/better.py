"""Which controller is better for which metric, by the levels of the first other factor."""

from collections.abc import Sequence
from typing import Final

from tcpassay.compare import Options, Ranking, between
from tcpassay.compare.between import Against
from tcpassay.errors import UserError
from tcpassay.interface import METRICS
from tcpassay.plural import few
from tcpassay.report.factors import Factor
from tcpassay.report.page_data import BetterData, BetterRow
from tcpassay.results import Results
from tcpassay.terminal import number

PARAMETERS: Final = ("controller", "stack.cc")
"""The group with this name, or the parameter, whose values are compared."""
MOST: Final = 12
"""Maximum number of controllers, and of levels of the other factor."""


def better(results: Results, factors: Sequence[Factor]) -> BetterData | None:
    """The rankings of the controllers; `None` if the runs have one controller, or are too few to compare."""
    several = {factor.name: factor for factor in factors if 1 < len(factor.levels) <= MOST}
    parameter = next((name for name in PARAMETERS if name in several), None)
    if parameter is None:
        return None
    by = next((name for name in several if name not in PARAMETERS), None)
    try:
        rankings = between(results, parameter, by, Options())
    except UserError:  # no partners, or no metric that could be compared
        return None
    rows = [_row(ranking) for ranking in rankings.rankings if ranking.medians]
    if not rows:
        return None
    over = f" (over all values of {few(rankings.over)})" if rankings.over else ""
    return {
        "parameter": f"{parameter}{over}",
        "by": by or "",
        "confidence": rankings.confidence,
        "rows": rows,
    }


def _row(ranking: Ranking) -> BetterRow:
    unit = METRICS[ranking.metric].unit
    than: dict[str, list[str]] = {}
    for one in ranking.better:
        than.setdefault(one.value, []).append(one.than)
    alike = len(ranking.best) == len(ranking.medians)
    none = "undecided" if ranking.undecided else "no relevant difference"
    return {
        "level": ranking.level,
        "metric": ranking.metric,
        "best": none if alike else ", ".join(ranking.best),
        "better": "; ".join(f"{value} than {', '.join(others)}" for value, others in than.items()),
        "medians": ", ".join(f"{value} {number(median, unit)}" for value, median in ranking.medians.items()),
        "against": "; ".join(f"{one.value} {one.effect}, {_p(one)}" for one in ranking.against),
    }


def _p(one: Against) -> str:
    return str(one.verdict) if one.p is None else f"p {one.p:.2g}, {one.verdict}"
