"""The verdict about a run and its partner: whether the result degraded, and which counters explain it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from tcpassay.quantile import median

METRIC: Final = "goodput"
SHARE: Final = 0.75
"""A partner with less than this share of the run's goodput is degraded. Random variation is smaller than that."""
DIFFERS: Final = 2.0
"""The limit for a pair of model and kernel; rounding of timers causes smaller differences."""

# Causes of lower throughput: metric, minimum rise (share of the first value, and absolute), description.
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
    """Two runs that differ in one setting, with one value per seed."""

    setting: str
    """The parameter or `substrate`."""
    before: str
    after: str
    why: str
    case: str
    partner: str
    """The partner's case; empty for a partner that is not in the folder."""
    seeds: tuple[int, ...]
    first: tuple[Metrics, ...]
    second: tuple[Metrics, ...]
    findings: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Oracles that reported an error or a warning in the first and in the second run."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of the comparison of a pair."""

    pair: Pair
    ratio: float
    """Median goodput of the partner over that of the run."""
    degraded: bool
    """Whether the result degraded with every seed."""
    explanation: str
    """The counters that explain the degradation, in words; empty if there is no explanation."""

    @property
    def unexplained(self) -> bool:
        """Whether the pair is degraded and no counter of the runs explains it."""
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
    """The verdict; `None` if a run has no goodput."""
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
    """The counters that rose in the partner, and the share of queueing in a longer round trip, in words."""
    said = []
    for name, factor, least, words in _COSTS:
        before, after = (median([one.get(name) or 0.0 for one in runs]) for runs in (pair.first, pair.second))
        if after >= before * factor and after - before >= least:
            said.append(f"{words} ({before:g} to {after:g})")
    return ", ".join(said)
