"""The preferred direction of each metric. A metric without one may differ but is never a regression."""

import fnmatch
from typing import Final, Literal

Direction = Literal["higher", "lower", "neither"]

_GOOD: Final[tuple[tuple[str, Direction], ...]] = (
    ("throughput", "higher"),
    ("goodput", "higher"),
    ("saturation", "higher"),
    ("completions", "higher"),
    ("jain_*", "higher"),
    ("share_min", "higher"),
    ("share_max", "lower"),
    ("throughput_sd_*", "lower"),
    ("throughput_cv_*", "lower"),
    ("flow_throughput_*", "lower"),
    ("host_share_min", "higher"),
    ("host_share_max", "lower"),
    ("longest_silence", "lower"),
    ("one_way_*", "lower"),
    ("rtt_min", "neither"),
    ("rtt_*", "lower"),
    ("srtt_mean", "lower"),
    ("queue_*", "lower"),
    ("failures", "lower"),
    ("completion_*", "lower"),
    ("round_*", "lower"),
    ("slowdown_*", "lower"),
    ("lost", "lower"),
    ("drops_*", "lower"),
    ("loss_rate", "lower"),
    ("retransmission*", "lower"),
    ("spurious_retransmissions", "lower"),
    ("timeout*", "lower"),
    ("cpu_per_gbit", "lower"),
)


def direction(metric: str) -> Direction:
    """The preferred direction of a metric, from the first matching pattern."""
    return next((good for pattern, good in _GOOD if fnmatch.fnmatchcase(metric, pattern)), "neither")
