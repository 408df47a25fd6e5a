"""Comparing two results: paired by case, each metric with its effect, an interval, and a corrected verdict.

    comparison = compare(load("results/cubic"), load("results/bbr"))
    comparison.regressions, comparison.same, comparison.as_json()

`pairing.py` pairs the runs, `family.py` chooses the metrics, `signedrank.py`, `correction.py` and `power.py` contain
the statistics, `effect.py` judges a metric, `comparison.py` combines all,
`direction.py` has the preferred direction of each metric, `show.py` prints. `between.py` compares each two values of a
parameter.
"""

from tcpassay.compare.between import Ranking, Rankings, between, cases_of, named
from tcpassay.compare.comparison import Change, Comparison, compare
from tcpassay.compare.correction import method
from tcpassay.compare.effect import Effect, Moved, Options, Verdict, describe
from tcpassay.compare.junit import junit
from tcpassay.compare.pairing import Sides
from tcpassay.compare.show import show
from tcpassay.compare.show_between import show_between

__all__ = [
    "Change",
    "Comparison",
    "Effect",
    "Moved",
    "Options",
    "Ranking",
    "Rankings",
    "Sides",
    "Verdict",
    "between",
    "cases_of",
    "compare",
    "describe",
    "junit",
    "method",
    "named",
    "show",
    "show_between",
]
