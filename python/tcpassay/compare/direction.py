"""The preferred direction of each metric. A metric without one may differ but is never a regression."""

from tcpassay.interface import METRICS, Direction


def direction(metric: str) -> Direction:
    """The preferred direction of a metric, from the first matching pattern."""
    return METRICS[metric].direction if metric in METRICS else Direction.NEITHER
