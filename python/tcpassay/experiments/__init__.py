"""The experiments of the papers: plans that compare the results of a paper with those of their runs.

An experiment is a plan of `plans/papers` with a table `[experiment]`, which holds what the paper says and how a verdict
follows from the measured numbers. `catalogue` finds them, `session` runs them, `measured` and `verdict` compare their
numbers with those of the paper, and `page` writes `docs/experiments`.
"""
