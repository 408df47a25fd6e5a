"""Pairs of runs of the same case and seed on two kernels, and their differences."""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from tcpassay.compare.pairing import SUBSTRATE, Sides, pair
from tcpassay.finding import Finding, Severity
from tcpassay.interface import METRICS
from tcpassay.messages import Outcome
from tcpassay.result_format import RunRow
from tcpassay.results import Results

By = Literal["packets", "metrics"]
"""What makes a pair of runs different: the digest over all packets, or metrics; outcomes and findings always do."""
THRESHOLD: Final = 0.05
"""A metric of a case differs if all runs of one kernel are beyond all runs of the other by more than this share."""


@dataclass(frozen=True, slots=True)
class TreePair:
    """Two runs of the same case with the same seed."""

    base: RunRow
    head: RunRow
    packets: bool
    """Whether packets differ: the digest over all of them, or the outcome."""
    metrics: tuple[str, ...]
    """Metrics with other values."""
    new: tuple[str, ...]
    """Oracles with findings on HEAD only."""
    gone: tuple[str, ...]
    """Oracles with findings on BASE only."""
    by: By = "packets"

    @property
    def differs(self) -> bool:
        """Whether the pair differs in the property that is compared."""
        packets = self.packets if self.by == "packets" else self.outcomes
        return bool(packets or self.metrics or self.new or self.gone)

    @property
    def outcomes(self) -> bool:
        """Whether the outcomes differ."""
        return self.base.get("outcome") != self.head.get("outcome")

    @property
    def seed(self) -> int:
        """The seed of both runs."""
        return int(self.head["seed"])

    @property
    def varied(self) -> dict[str, str]:
        """The values of the plan's factors."""
        return {
            name: str(value) for name, value in (self.head.get("varied") or {}).items() if name != SUBSTRATE
        }

    @property
    def label(self) -> str:
        """The values of the plan's factors in one line."""
        return ", ".join(f"{name}={value}" for name, value in self.varied.items())

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {
            "case": {"base": self.base["case"], "head": self.head["case"]},
            "seed": self.seed,
            "varied": self.varied,
            "outcomes": {"base": self.base.get("outcome"), "head": self.head.get("outcome")},
            "packets": self.packets,
            "metrics": list(self.metrics),
            "findings": {"new": list(self.new), "gone": list(self.gone)},
        }


@dataclass(frozen=True, slots=True)
class Shift:
    """A metric of a case that differs by more than between seeds."""

    case: str
    """The id on HEAD."""
    metric: str
    base: tuple[float, ...]
    """The values by seed."""
    head: tuple[float, ...]

    @property
    def change(self) -> float:
        """The mean on HEAD as a multiple of that on BASE; infinite from zero."""
        of_base, of_head = sum(self.base) / len(self.base), sum(self.head) / len(self.head)
        return of_head / of_base if of_base else math.inf

    def as_json(self) -> dict[str, object]:
        """The form for JSON."""
        return {"case": self.case, "metric": self.metric, "base": list(self.base), "head": list(self.head)}


def pairs_of(results: Results, base: str, head: str, by: By = "packets") -> list[TreePair]:
    """The pairs of a result folder with runs on both kernels. Raises `UserError` if there are none."""
    found = pair(results, results, Sides({SUBSTRATE: base}, {SUBSTRATE: head}))
    values = _metrics(results)
    findings: dict[tuple[str, int], list[Finding]] = {}
    for one in results.found:
        findings.setdefault((one.case, one.seed or 0), []).append(one)
    return [_pair(two.a, two.b, values, findings, by) for two in found.pairs]


def _pair(
    base: RunRow,
    head: RunRow,
    values: Mapping[tuple[str, int], Mapping[str, float | None]],
    findings: Mapping[tuple[str, int], list[Finding]],
    by: By,
) -> TreePair:
    here, there = (base["case"], int(base["seed"])), (head["case"], int(head["seed"]))
    of_base, of_head = values.get(here, {}), values.get(there, {})
    before, after = findings.get(here, []), findings.get(there, [])
    return TreePair(
        base,
        head,
        base.get("outcome") != head.get("outcome") or (base.get("trace") or "") != (head.get("trace") or ""),
        tuple(name for name in METRICS if not _same(of_base.get(name), of_head.get(name))),
        beside(after, before),
        beside(before, after),
        by,
    )


def beside(some: Sequence[Finding], others: Sequence[Finding]) -> tuple[str, ...]:
    """Oracles with findings only among `some`; and with a first difference that the others have later or not at all."""
    known = {one.oracle for one in others if one.severity is not Severity.DIFFERENCE}
    first = {(one.host, one.flow): one.start_ns for one in others if one.severity is Severity.DIFFERENCE}

    def is_new(one: Finding) -> bool:
        if one.severity is Severity.DIFFERENCE:
            return one.start_ns < first.get((one.host, one.flow), sys.maxsize)
        return one.oracle not in known

    return tuple(sorted({one.oracle for one in some if is_new(one)}))


def _same(one: float | None, other: float | None) -> bool:
    both_undefined = one is not None and other is not None and math.isnan(one) and math.isnan(other)
    return one == other or both_undefined


def _metrics(results: Results) -> dict[tuple[str, int], dict[str, float | None]]:
    frame = results.metrics
    return {(str(row["case"]), int(row["seed"])): row for row in frame.iter_rows(named=True)}


def shifts(results: Results, pairs: Sequence[TreePair]) -> list[Shift]:
    """Metrics that differ by more than between seeds, the largest changes of each case first.

    All values of HEAD are beyond all values of BASE by more than `THRESHOLD`. With a single seed the variation between
    seeds is not known, and nothing is listed.
    """
    values = _metrics(results)
    by_case: dict[str, list[TreePair]] = {}
    for one in pairs:
        if one.base.get("outcome") == one.head.get("outcome") == Outcome.DONE:
            by_case.setdefault(str(one.head["case"]), []).append(one)
    return [shift for among in by_case.values() if len(among) > 1 for shift in _shifts(among, values)]


def _shifts(
    among: Sequence[TreePair], values: Mapping[tuple[str, int], Mapping[str, float | None]]
) -> Iterator[Shift]:
    found = []
    for metric in METRICS:
        base = [values.get((str(one.base["case"]), one.seed), {}).get(metric) for one in among]
        head = [values.get((str(one.head["case"]), one.seed), {}).get(metric) for one in among]
        of_base = tuple(value for value in base if value is not None)
        of_head = tuple(value for value in head if value is not None)
        if len(of_base) == len(of_head) == len(among) and beyond(of_base, of_head):
            found.append(Shift(str(among[0].head["case"]), metric, of_base, of_head))
    return iter(
        sorted(found, key=lambda one: -abs(math.log(one.change)) if 0 < one.change < math.inf else -math.inf)
    )


def beyond(base: Sequence[float], head: Sequence[float]) -> bool:
    """Whether all values of one side are beyond all values of the other by more than `THRESHOLD`."""
    low, high = (base, head) if max(base) < min(head) else (head, base)
    gap = min(high) - max(low)
    return gap > 0 and gap > THRESHOLD * max(abs(min(high)), abs(max(low)))
