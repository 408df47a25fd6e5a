"""Reduction of curves to fewer points with the same appearance.

A curve on a screen has several hundred columns of pixels, and only the minimum and maximum of the points in a column
are visible. These extremes are kept exactly; no values are averaged.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def within(time: Floats, windows: Iterable[tuple[float, float]], most: int) -> Flags:
    """The points in any of the windows, including both ends; none if there are more than `most`."""
    inside = np.zeros(len(time), dtype=np.bool_)
    for start, end in windows:
        inside[np.searchsorted(time, start) : np.searchsorted(time, end, "right")] = True
    return inside if inside.sum() <= most else np.zeros(len(time), dtype=np.bool_)


def extremes(time: Floats, values: Floats, most: int) -> Indices:
    """Indices of at most `most` points in ascending order.

    The first, the last, and the minimum and maximum of each time bin.

    `time` must not decrease and must contain no NaN; `most` is at least 4.
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
    """At most `most` bars from `low` to `high`: the bars of one time bin are replaced by one that spans them.

    Its time is that of the first of them.
    """
    if len(time) <= most:
        return time, low, high
    starts = _starts(time, most)
    return time[starts], np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)


def sums(time: Floats, counts: Floats, width: float) -> tuple[Floats, Floats]:
    """Counts summed over bins of `width`: the start of each bin with counts, and its sum."""
    if not len(time):
        return time, counts
    bins = np.floor(time / width)
    starts = np.flatnonzero(np.diff(bins, prepend=bins[0] - 1))
    return bins[starts] * width, np.add.reduceat(counts, starts)


def quantiles(values: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """A distribution function with several hundred points.

    Values, and the share of all values that are at most as large.

    `values` are in ascending order. Both ends are kept, and the tail up to one in a million.
    """
    share = np.cumsum(counts) / counts.sum()
    tails = 1 - np.logspace(-2, -6, 60)
    wanted = np.unique(np.concatenate([np.linspace(0, 1, 301), tails]))
    kept = np.unique(np.minimum(np.searchsorted(share, wanted - 1e-12), len(values) - 1))
    return values[kept], share[kept]


def _starts(time: Floats, bins: int) -> Indices:
    """The start of each non-empty bin of `bins` equal time bins."""
    span = time[-1] - time[0]
    if span <= 0:
        return np.zeros(1, dtype=np.int64)
    number = np.minimum(((time - time[0]) / span * bins).astype(np.int64), bins - 1)
    return np.flatnonzero(np.diff(number, prepend=-1))
