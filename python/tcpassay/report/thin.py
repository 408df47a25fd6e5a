"""Fewer points for the same picture: what is left out would not have been seen.

A curve on a screen has some hundred columns of pixels; of the points in one column only the lowest and the highest
are seen. Extremes are what a report is read for, so they are kept exactly; nothing is averaged.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def within(time: Floats, windows: Iterable[tuple[float, float]], most: int) -> Flags:
    """Which points lie in any of the windows, both ends included; none of them when they are more than `most`."""
    inside = np.zeros(len(time), dtype=np.bool_)
    for start, end in windows:
        inside[np.searchsorted(time, start) : np.searchsorted(time, end, "right")] = True
    return inside if inside.sum() <= most else np.zeros(len(time), dtype=np.bool_)


def extremes(time: Floats, values: Floats, most: int) -> Indices:
    """Places of at most `most` points, rising: the first, the last, and of each bin of time the lowest and the highest.

    `time` must not fall and must have no gaps in the sense of NaN; `most` is at least 4.
    """
    if most < 4:  # noqa: PLR2004 - both ends, and one bin
        raise ValueError(f"{most} points are too few; at least 4")
    if len(values) <= most:
        return np.arange(len(values))
    starts = _starts(time, (most - 2) // 2)
    kept = [0, len(values) - 1]
    for start, end in zip(starts, [*starts[1:], len(values)], strict=True):
        own = values[start:end]
        kept += [start + int(own.argmin()), start + int(own.argmax())]
    return np.unique(np.array(kept, dtype=np.int64))


def spans(time: Floats, low: Floats, high: Floats, most: int) -> tuple[Floats, Floats, Floats]:
    """At most `most` bars from `low` to `high`: those of one bin of time become one that spans them all.

    It stands at the time of the first of them.
    """
    if len(time) <= most:
        return time, low, high
    starts = _starts(time, most)
    return time[starts], np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)


def sums(time: Floats, counts: Floats, width: float) -> tuple[Floats, Floats]:
    """Counts summed over bins of `width`: the start of each bin that has any, and its sum."""
    if not len(time):
        return time, counts
    bins = np.floor(time / width)
    starts = np.flatnonzero(np.diff(bins, prepend=bins[0] - 1))
    return bins[starts] * width, np.add.reduceat(counts, starts)


def quantiles(values: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """A distribution function in some hundred points: values, and the share of all that is at most as large.

    `values` rise. Both ends are kept, and the tail to one in a million.
    """
    share = np.cumsum(counts) / counts.sum()
    tails = 1 - np.logspace(-2, -6, 60)
    wanted = np.unique(np.concatenate([np.linspace(0, 1, 301), tails]))
    kept = np.unique(np.minimum(np.searchsorted(share, wanted - 1e-12), len(values) - 1))
    return values[kept], share[kept]


def _starts(time: Floats, bins: int) -> Indices:
    """Where each of `bins` equal bins of time that is not empty begins."""
    span = time[-1] - time[0]
    if span <= 0:
        return np.zeros(1, dtype=np.int64)
    number = np.minimum(((time - time[0]) / span * bins).astype(np.int64), bins - 1)
    return np.flatnonzero(np.diff(number, prepend=-1))
