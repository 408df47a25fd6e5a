"""The effect that a metric is beyond a limit, for isolations that start from a value instead of a finding."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tcpassay.interface import METRICS
from tcpassay.isolate.ran import Effect
from tcpassay.isolate.symptoms import Symptom
from tcpassay.isolate.triples import Triples
from tcpassay.result_format import RunRow
from tcpassay.run.operators import COMPARE
from tcpassay.terminal import number

_WORDS: Final = {
    ">=": "at least",
    "<=": "at most",
    ">": "above",
    "<": "below",
    "==": "equal to",
    "!=": "other than",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit of a metric; runs for which the comparison holds have the effect."""

    name: str
    """What set the limit, in place of the name of an oracle."""
    metric: str
    op: str
    """The comparison of the metric with the limit."""
    limit: float

    @property
    def effect(self) -> Effect:
        """The effect that runs beyond the limit have."""
        title = f"{self.metric} {_WORDS[self.op]} {number(self.limit, METRICS[self.metric].unit)}"
        return Effect(self.name, "note", title)

    def shown(self, metrics: Mapping[str, float | None]) -> bool:
        """Whether a run with these metrics has the effect."""
        value = metrics.get(self.metric)
        return value is not None and COMPARE[self.op](value, self.limit)


@dataclass(frozen=True, slots=True)
class Beyond:
    """A run whose metric is beyond a limit, as input of the isolation."""

    symptom: Symptom
    bound: Bound
    against: Triples | None = None
    """The settings of the case with which the run is compared; by default the defaults of the parameters."""


def symptom_of(run: RunRow) -> Symptom:
    """A run without a finding as input of the isolation."""
    return Symptom(
        run["case"],
        run["seed"],
        run.get("substrate") or "model",
        run["triples"],
        run.get("varied") or {},
        (),
        run.get("digest") or "",
        run.get("trace") or "",
    )
