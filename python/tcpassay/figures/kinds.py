"""The kinds of figures, and which function draws each."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from tcpassay.figures import style
from tcpassay.figures.data import Array, Recording, seconds
from tcpassay.plan import model
from tcpassay.plan.expand import Case, show
from tcpassay.plan.read import Plan

Shown = Sequence[tuple[str, Path]]

# A range of values beyond this ratio is shown on a logarithmic axis.
WIDE = 20
# More points than this are drawn as a picture inside the SVG.
MANY = 5_000


def name(case: Case, figure: model.Panel, plan: Plan) -> str:
    """What a case is called in a figure: the label of each varied value, or the value itself."""
    del plan
    values = [show(value) for factor, value in case.varied.items() if _varies(factor, figure)]
    return ", ".join(figure.labels.get(value, value) for value in values)


def _varies(factor: str, figure: model.Panel) -> bool:
    wanted = figure.where.get(factor)
    return wanted is None or (isinstance(wanted, list) and len(wanted) > 1)


def draw(figure: model.Figure, shown: Shown) -> dict[str, bytes]:
    """The figure by file suffix."""
    recordings = [(label, Recording(folder)) for label, folder in shown]
    with style.styled():
        match figure:
            case model.Timeline():
                return style.save(timeline(figure, recordings))
            case model.Sequence():
                return style.save(sequence(figure, recordings))
            case model.Distribution():
                return style.save(distribution(figure, recordings))


# Series over time.


def timeline(figure: model.Timeline, recordings: list[tuple[str, Recording]]) -> Any:
    """One row a series, one column a case; rows share their scale, so that cases compare at a glance."""
    rows, columns = len(figure.series), len(recordings)
    drawn = style.figure(height=0.75 + 1.3 * rows, width=style.WIDTH if columns > 1 else style.WIDTH * 0.7)
    grid = drawn.subplots(rows, columns, sharex=True, sharey="row", squeeze=False)
    if figure.title:
        drawn.suptitle(figure.title, fontsize=9.5, fontweight="bold")
    for column, (label, recording) in enumerate(recordings):
        for row, kind in enumerate(figure.series):
            axes = grid[row, column]
            PANELS[kind](axes, recording)
            if column:
                axes.set_ylabel("")
            _clip(axes, figure)
        style.heading(grid[0, column], label, counted(recording))
        grid[-1, column].set_xlabel("Time (s)")
    drawn.align_ylabels(grid[:, 0])
    for row, kind in enumerate(figure.series):
        _scale(grid[row, 0], kind)
    return drawn


def _clip(axes: Axes, figure: model.Timeline | model.Sequence) -> None:
    if figure.start is not None:
        axes.set_xlim(left=seconds(figure.start))
    if figure.end is not None:
        axes.set_xlim(right=seconds(figure.end))


def _steps(axes: Axes, time: Array, values: Array, color: str) -> None:
    axes.plot(time, values, color=color, linewidth=0.9, drawstyle="steps-post", solid_joinstyle="round")
    axes.margins(x=0.01)


def _throughput(axes: Axes, recording: Recording) -> None:
    time, bits = recording.throughput()
    _steps(axes, time, bits / 1e9, style.BLUE)
    capacity = recording.capacity
    if capacity is not None:
        axes.axhline(capacity / 1e9, color=style.GREY, linewidth=0.9, linestyle="--")
    interval = recording.interval
    what = "Throughput" if len(recording.flows) == 1 else "All flows"
    axes.set_ylabel(f"{what} (Gbit/s)\nper {number(interval * 1e3)} ms")
    timeouts = recording.timeouts()
    if len(timeouts):
        top = np.full_like(timeouts, 0.97)
        axes.plot(timeouts, top, "v", color=style.RED, markersize=3.5, transform=axes.get_xaxis_transform())


def _flows(axes: Axes, recording: Recording) -> None:
    """A lane a flow, so that one that stands still is seen beside those that fill its place."""
    lanes = [recording.flow_throughput(flow) for flow in recording.flows]
    top = max((float(bits.max()) for _, bits in lanes if len(bits)), default=1.0)
    for place, (time, bits) in enumerate(reversed(lanes)):
        height = place + 0.88 * bits / top
        axes.fill_between(time, place, height, step="post", color=style.BLUE, linewidth=0, alpha=0.85)
        axes.axhline(place, color=style.GREY, linewidth=0.4)
    axes.set_yticks(np.arange(len(lanes)) + 0.44, [str(len(lanes) - place) for place in range(len(lanes))])
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.01)
    axes.set_ylim(0, len(lanes))
    axes.set_ylabel(f"Each flow\n(lane: {number(top / 1e9)} Gbit/s)")


def counted(recording: Recording) -> str:
    """How often the sender timed out, and how many packets were lost."""
    timeouts, lost = recording.timed_out, recording.dropped
    return f"{plural(timeouts, 'timeout')}, {plural(lost, 'packet')} dropped"


def plural(count: int, thing: str) -> str:
    """`1 timeout`, `no timeouts`, `7 timeouts`."""
    return f"{count or 'no'} {thing}{'' if count == 1 else 's'}"


def number(value: float) -> str:
    """Without a needless fraction."""
    return f"{value:.3g}"


def _rtt(axes: Axes, recording: Recording) -> None:
    time, rtt = recording.rtt()
    axes.plot(time, rtt * 1e3, ".", color=style.GREEN, markersize=1.6, rasterized=len(time) > MANY)
    axes.set_ylabel("RTT (ms)" if recording.logged else "Smoothed RTT (ms)")
    if recording.logged and len(rtt):
        style.note(axes, f"p99 {number(np.quantile(rtt, 0.99) * 1e3)} ms")


def _cwnd(axes: Axes, recording: Recording) -> None:
    time, window = recording.cwnd()
    _steps(axes, time, window / 1e3, style.PURPLE)
    axes.set_ylabel("cwnd (KB)")


def _queue(axes: Axes, recording: Recording) -> None:
    time, backlog = recording.backlog()
    _steps(axes, time, backlog / 1e3, style.ORANGE)
    axes.set_ylabel("Queue (KB)")


def _marks(axes: Axes, recording: Recording) -> None:
    time, marks = recording.marks()
    _steps(axes, time, marks, style.RED)
    axes.set_ylabel(f"Marked (packets\nper {number(recording.interval * 1e3)} ms)")


PANELS: dict[str, Callable[[Axes, Recording], None]] = {
    "throughput": _throughput,
    "flows": _flows,
    "rtt": _rtt,
    "cwnd": _cwnd,
    "queue": _queue,
    "marks": _marks,
}


def _row(axes: Axes) -> Iterator[Line2D]:
    """The lines of all axes that share this one's scale."""
    for sibling in axes.get_shared_y_axes().get_siblings(axes):
        yield from sibling.get_lines()


def _scale(axes: Axes, kind: str) -> None:
    if kind == "flows":
        return
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in _row(axes)] or [np.ones(1)])
    low, high = float(drawn.min()), axes.get_ylim()[1]
    if kind == "rtt" and low > 0 and high / low > WIDE:
        log_axis(axes)
        axes.set_ylim(top=high * 2)
    else:
        axes.set_ylim(0, high * 1.12)
        axes.yaxis.set_major_locator(MaxNLocator(5))


def log_axis(axes: Axes, which: str = "y") -> None:
    """A logarithmic axis whose numbers are written out: 0.1, 1, 10."""
    axis = axes.yaxis if which == "y" else axes.xaxis
    (axes.set_yscale if which == "y" else axes.set_xscale)("log")
    axis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


# Sequence numbers.


def sequence(figure: model.Sequence, recordings: list[tuple[str, Recording]]) -> Any:
    """The sender's sequence number against time; each stall shaded, with its length."""
    drawn = style.figure(height=0.5 + 2.6 * len(recordings))
    grid = drawn.subplots(len(recordings), 1, sharex=True, squeeze=False)
    if figure.title:
        drawn.suptitle(figure.title, fontsize=9.5, fontweight="bold")
    for axes, (label, recording) in zip(grid[:, 0], recordings, strict=True):
        _sequence(axes, label, recording, figure)
    grid[-1, 0].set_xlabel("Time (s)")
    return drawn


def _sequence(axes: Axes, label: str, recording: Recording, figure: model.Sequence) -> None:
    time, position, again = recording.sent()
    start = seconds(figure.start) if figure.start else 0.0
    end = seconds(figure.end) if figure.end else math.inf
    inside = (time >= start) & (time <= end)
    time, position, again = time[inside], position[inside] / 1e6, again[inside]
    first = ~again
    axes.plot(
        time[first],
        position[first],
        ".",
        color=style.BLUE,
        markersize=1.5,
        label="sent",
        rasterized=len(time) > MANY,
    )
    stalls = [(a, b) for a, b in itertools.pairwise(time) if b - a >= seconds(figure.stall)]
    for a, b in stalls:
        axes.axvspan(a, b, color=style.ORANGE, alpha=0.22, linewidth=0)
        height = np.interp(a, time, position)
        axes.annotate(
            f"{number((b - a) * 1e3)} ms",
            ((a + b) / 2, height),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=7,
            color="#333333",
        )
    axes.plot(time[again], position[again], "x", color=style.RED, markersize=4, label="retransmitted")
    axes.set_ylabel("Sequence number (MB)")
    axes.margins(x=0.01)
    axes.set_ylim(bottom=0 if start == 0 else None)
    handles, labels = axes.get_legend_handles_labels()
    if stalls:
        handles.append(axes.fill_between([], [], color=style.ORANGE, alpha=0.22, linewidth=0))
        labels.append(f"silence of {figure.stall} or more")
    legend = axes.legend(handles, labels, loc="lower right", frameon=True, framealpha=0.9, edgecolor="none")
    legend.legend_handles[0].set_markersize(5)  # type: ignore[union-attr]
    dropped = plural(recording.dropped, "packet")
    remark = (
        f"{plural(len(stalls), 'stall')}, {plural(int(again.sum()), 'retransmission')}, {dropped} dropped"
    )
    style.heading(axes, label, remark)


# Distributions.


def distribution(figure: model.Distribution, recordings: list[tuple[str, Recording]]) -> Any:
    """Cumulative distribution of the RTT; the medians written beside the lines."""
    drawn = style.figure(height=2.6, width=style.WIDTH * 0.7)
    axes = drawn.subplots()
    if figure.title:
        axes.set_title(figure.title, fontweight="bold")
    for index, (label, recording) in enumerate(recordings):
        values, share = recording.rtt_distribution()
        color = style.CYCLE[index % len(style.CYCLE)]
        line = style.LINES[index % len(style.LINES)]
        axes.plot(values * 1e3, share * 100, color=color, linestyle=line, label=label, drawstyle="steps-post")
        middle = values[np.searchsorted(share, 0.5)] * 1e3
        axes.plot(middle, 50, "o", color=color, markersize=3.5)
        right = middle > values[-1] * 0.3
        axes.annotate(
            f"median {number(middle)} ms",
            (middle, 50),
            xytext=(-6, 4) if right else (6, -9),
            textcoords="offset points",
            ha="right" if right else "left",
            fontsize=7.5,
            color=color,
        )
    log_axis(axes, "x")
    axes.set_xlabel("RTT (ms)")
    axes.set_ylabel("Samples at or below (%)")
    axes.set_ylim(0, 101)
    if any(label for label, _ in recordings):
        axes.legend(loc="lower right")
    return drawn
