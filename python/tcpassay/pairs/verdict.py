"""A run and its partner: whether the result degraded, and what explains that."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from tcpassay.quantile import median

METRIC: Final = "goodput"
SHARE: Final = 0.75
"""Of the first run's goodput: less is a degradation. What single packets and the last timer of a run decide is less."""
DIFFERS: Final = 2.0
"""Between model and kernel: a factor that no rounding of timers explains."""

# What takes throughput away: the metric, by how much it must rise (share of the first, and at least), and in words.
_COSTS: Final = (
    ("timeouts", 1.2, 1.0, "more timeouts"),
    ("retransmissions", 1.2, 3.0, "more retransmissions"),
    ("marks", 1.2, 3.0, "more marks"),
    ("limited_rwnd", 1.2, 0.1, "the receive window limits for longer"),
    ("limited_app", 1.2, 0.1, "the application limits for longer"),
    ("delayed_ack_timeouts", 1.2, 3.0, "more ACKs wait for the delayed-ACK timer"),
)
Metrics = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs that differ in one setting; with several seeds, a value for each."""

    setting: str
    """The parameter or `substrate`."""
    before: str
    after: str
    why: str
    case: str
    partner: str
    """The partner's case, or empty when it was made."""
    seeds: tuple[int, ...]
    first: tuple[Metrics, ...]
    second: tuple[Metrics, ...]
    findings: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Oracles that reported an error or a warning in the first and in the second run."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of comparing a pair."""

    pair: Pair
    ratio: float
    """Median goodput of the partner over that of the run."""
    degraded: bool
    """With every seed."""
    explanation: str
    """What explains it; empty when nothing does."""

    @property
    def unexplained(self) -> bool:
        """A degradation that nothing in the counters of the runs explains."""
        return self.degraded and not self.explanation

    def as_json(self) -> dict[str, object]:
        """For machines."""
        pair = asdict(self.pair)
        return pair | {
            "ratio": self.ratio,
            "degraded": self.degraded,
            "explanation": self.explanation,
            "unexplained": self.unexplained,
        }


def judged(pair: Pair) -> Verdict | None:
    """The verdict; `None` when a run has no goodput."""
    ratios = []
    for first, second in zip(pair.first, pair.second, strict=True):
        one, other = first.get(METRIC), second.get(METRIC)
        if not one or other is None:
            return None
        ratios.append(other / one)
    if not ratios:
        return None
    ratio = median(ratios)
    if pair.setting == "substrate":
        degraded = not 1 / DIFFERS <= ratio <= DIFFERS or pair.findings[0] != pair.findings[1]
        return Verdict(pair, ratio, degraded, "")
    degraded = all(one < SHARE for one in ratios)
    return Verdict(pair, ratio, degraded, _explanation(pair) if degraded else "")


def _explanation(pair: Pair) -> str:
    """Counters that rose in the partner, and the queue's share of a longer round trip."""
    said = []
    for name, factor, least, words in _COSTS:
        before, after = (median([one.get(name) or 0.0 for one in runs]) for runs in (pair.first, pair.second))
        if after >= before * factor and after - before >= least:
            said.append(f"{words} ({before:g} to {after:g})")
    return ", ".join(said)
