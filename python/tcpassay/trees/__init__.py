"""Comparison of two kernels: the same cases on both in virtual time, so that every difference is caused by the kernels.

    told = compare_trees("6.1", "6.1+fix", plan, Path("results/fix"), Options(), watch)
    told.different, told.causes, told.as_json()

`pairs.py` says which pairs of runs differ, and in what. `causes.py` looks for the smallest settings with which the
kernels differ, with the delta debugging of `isolate` on pairs of runs (`experiment.py`). Pairs that no setting
separates are grouped by their first difference (`grouping.py`), with the smallest settings of each group
(`smallest.py`); both run pairs with `pair_runner.py`, which stores the results. `executed.py` counts which changed
lines the runs executed, and draws further cases. `first.py` finds the first packet and the first event that differ.
`comparison.py` does all of it, `show.py` prints, `junit.py` writes JUnit XML.
"""

from tcpassay.trees.comparison import Options, TreeComparison, compare_trees

__all__ = ["Options", "TreeComparison", "compare_trees"]
