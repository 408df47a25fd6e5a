"""The settings of a plan for running: limits, oracles, kept recordings."""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Self

from tcpassay.messages import CaseRequest, Collect
from tcpassay.plan import table
from tcpassay.plan.expand import Case
from tcpassay.plan.model import Distribution, OfMetric, PlanFile, Search
from tcpassay.plan.quantity import quantity
from tcpassay.plan.read import Plan
from tcpassay.run.pool import Limits

SMALL: Final = 50
"""Maximum number of runs of a small plan."""
SMALL_DETAILED: Final = 10
"""The same if [collect] enables the event log, packets or deliveries, which take megabytes per run."""
SMALL_ROWS: Final = 1_000_000
"""Maximum number of rows of all series of a small plan, about 30 MB."""
DURATION: Final = table.parameters()["app.duration"].default


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings for the runs of a plan."""

    limits: Limits
    """The limits of a run."""
    budget: float | None
    """Maximum real time of one command in seconds."""
    oracles: list[str] | None
    """Names of oracles; an empty list means none, `None` means all."""
    keep: str
    sample: float
    """Share of the recordings without findings that are kept."""
    collect: Collect
    drawn: frozenset[str]
    """Cases shown in figures, with the plan's first seed."""
    pooled: frozenset[str]
    """Cases shown in figures, with all seeds."""

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """The settings of a plan."""
        spec = plan.spec
        return cls(
            limits_of(spec),
            None if spec.limits.time is None else _amount(spec.limits.time, 10**9),
            oracles_of(spec),
            "all" if small(plan) and not spec.keep.model_fields_set else spec.keep.recordings,
            _amount(spec.keep.sample),
            wanted_of(spec),
            frozenset(
                case.id
                for figure in spec.figure
                if not isinstance(figure, OfMetric)
                for case in plan.select(figure.where)
            ),
            frozenset(
                case.id
                for figure in spec.figure
                if isinstance(figure, Distribution)
                for case in plan.select(figure.where)
            ),
        )

    @property
    def judges(self) -> bool:
        """Whether oracles evaluate the runs."""
        return self.oracles != []

    def request(self, plan: Plan, case: Case, seed: int) -> CaseRequest:
        """The request to a worker, without the paths."""
        return CaseRequest(
            script=case.script,
            triples=case.triples,
            substrate=case.substrate,
            seed=seed,
            collect=self.collect | {"events": self.collect["events"] or self.judges},
            expect=case.expect,
            oracles=self.oracles,
            keep=self._keeps(plan, case, seed),
            keep_found=self.keep != "none",
            keep_events=self.collect["events"],
            checks=[
                (check.metric, check.op, check.limit)
                for check in plan.spec.check
                if check.over == "each" and check.times is None and case.matches(check.where)
            ],
            memory=self.limits.memory,
            seconds=None if case.substrate == "model" else self.limits.seconds,
        )

    def _keeps(self, plan: Plan, case: Case, seed: int) -> bool:
        drawn = case.id in (self.drawn if seed == plan.spec.seeds[0] else self.pooled)
        if self.keep == "all" or drawn:
            return True
        return self.keep != "none" and self.sample > 0 and lot(case.id, seed) < self.sample


def small(plan: Plan) -> bool:
    """Whether all recordings of a plan together are small enough to be kept by default."""
    spec = plan.spec
    if isinstance(spec.strategy, Search):
        return False  # the number of its runs is not known
    detailed = spec.collect.events or spec.collect.packets or spec.collect.deliveries
    if len(plan.cases) * len(spec.seeds) > (SMALL_DETAILED if detailed else SMALL):
        return False
    if spec.collect.series == "off":
        return True
    interval = _amount(spec.collect.series, 10**9)
    rows = sum(_rows(case, interval) for case in plan.cases if case.script is None)
    return rows * len(spec.seeds) <= SMALL_ROWS


def _rows(case: Case, interval: float) -> float:
    """The approximate number of series rows of a run: one per interval for each flow and each queue."""
    duration = quantity(case.triples.get("app.duration", DURATION)).amount
    flows = quantity(case.triples.get("app.flows", 1)).amount
    if not isinstance(duration, Fraction) or not isinstance(flows, Fraction):
        return float("inf")
    return float(duration) / 1e9 / interval * (float(flows) + 2)


def limits_of(spec: PlanFile) -> Limits:
    """The limits of a run."""
    return Limits(_amount(spec.limits.case_time, 10**9), int(_amount(spec.limits.case_memory)))


def oracles_of(spec: PlanFile) -> list[str] | None:
    """The oracles: an empty list means none, `None` means all."""
    if isinstance(spec.oracles, bool):
        return None if spec.oracles else []
    return list(spec.oracles)


def wanted_of(spec: PlanFile) -> Collect:
    """The data to collect, in the form of the data plane."""
    wanted = spec.collect
    return {
        "series": None if wanted.series == "off" else wanted.series,
        "warmup": wanted.warmup,
        "events": wanted.events,
        "packets": wanted.packets,
        "deliveries": wanted.deliveries,
        "taps": wanted.taps,
    }


def lot(case: str, seed: int) -> float:
    """A number from 0 to 1 for a run, which is the same on every machine and in extended plans."""
    return int(hashlib.sha256(f"{case}-{seed}".encode()).hexdigest()[:8], 16) / 2**32


def _amount(text: str, per: int = 1) -> float:
    amount = quantity(text).amount
    if not isinstance(amount, Fraction):
        raise TypeError(f"the model of plans takes `{text}` for a quantity")
    return float(amount / per)
