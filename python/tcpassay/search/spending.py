"""The budget of a search, and its used part."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from tcpassay.plan import model
from tcpassay.plan.quantity import quantity
from tcpassay.search.feedback import Ran


@dataclass
class Spending:
    """The limits of a search's cost, and the cost of its runs so far."""

    runs: int | None
    """Maximum number of runs; `None` for no limit."""
    cpu_s: float | None
    of_case: int
    """Number of runs per case."""
    used_runs: int = 0
    used_cpu_s: float = 0.0

    @classmethod
    def of(cls, spec: model.PlanFile, budget: model.Budget) -> Self:
        """The budget of a plan."""
        amount = None if budget.cpu_time is None else quantity(budget.cpu_time).amount
        seconds = float(amount / 10**9) if isinstance(amount, Fraction) else None
        return cls(budget.runs, seconds, len(spec.seeds) * spec.repetitions)

    def spend(self, runs: Iterable[Ran]) -> None:
        """Counts the runs of a case."""
        self.used_runs += self.of_case
        self.used_cpu_s += sum(run.cpu_s for run in runs)

    def cases(self, most: int) -> int:
        """The number of further cases, at most `most`, that the budget allows."""
        if self.cpu_s is not None and self.used_cpu_s >= self.cpu_s:
            return 0
        return most if self.runs is None else min(most, (self.runs - self.used_runs) // self.of_case)

    def ended(self) -> str:
        """The part of the budget that is used up, in words; empty if none is."""
        if self.cpu_s is not None and self.used_cpu_s >= self.cpu_s:
            return f"the budget of {self.cpu_s:g} s of CPU time is used up"
        return f"the budget of {self.runs} runs is used up"
