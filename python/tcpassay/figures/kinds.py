"""The kinds of figures with their drawing functions."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from tcpassay import terminal
from tcpassay.figures import style
from tcpassay.figures.arrows import diagram
from tcpassay.figures.data import Array, NoDataError, Pooled, Recording, seconds
from tcpassay.plan import model
from tcpassay.plan.expand import Case, heading, show
from tcpassay.terminal import prefixed

Shown = Sequence[tuple[str, Sequence[Path]]]
"""The label and the recordings of each case, one for each seed."""

# A larger range of values has a logarithmic axis.
WIDE = 20
# A larger number of points is embedded in the SVG as a bitmap.
MANY = 5_000


# Number of columns of a timeline with more than four cases, which has several bands of rows.
COLUMNS = 3
ACROSS = 4
# Maximum number of cases in a figure; more would be unreadable or too large for a PNG.
MOST_TIMELINES = 24
MOST_PANELS = 48
MOST_WINDOWS = 4
"""Flows whose windows are drawn together."""
MOST_SEQUENCES = 12
MOST_DISTRIBUTIONS = style.PAIRS
MOST_DIAGRAMS = 1


def name(case: Case, figure: model.Panel) -> str:
    """The name of a case in a figure: the label of each varied value, or the value itself."""
    values = {factor: show(value) for factor, value in case.varied.items() if _varies(factor, figure)}
    return heading(values, figure.labels)


def _varies(factor: str, figure: model.Panel) -> bool:
    wanted = figure.where.get(factor)
    return wanted is None or (isinstance(wanted, list) and len(wanted) > 1)


def most(figure: model.OfRuns) -> int:
    """The maximum number of cases of a figure."""
    match figure:
        case model.Timeline():
            return min(MOST_TIMELINES, MOST_PANELS // len(figure.series))
        case model.Sequence():
            return MOST_SEQUENCES
        case model.Distribution():
            return MOST_DISTRIBUTIONS
        case model.Diagram():
            return MOST_DIAGRAMS


def left_out(figure: model.OfRuns, cases: int) -> str:
    """The note of a figure that does not show all its cases; otherwise empty."""
    if cases <= most(figure):
        return ""
    return (
        f"the first {most(figure)} of {cases} cases are shown; select others with `where` in its [[figure]]"
    )


def pools(figure: model.OfRuns) -> bool:
    """Whether a figure shows all seeds of a case together instead of the run of the first one."""
    return isinstance(figure, model.Distribution)


def _of_one_run(figure: model.OfRuns, shown: Shown) -> str:
    """The note of a figure of one run of each case, if there are others; otherwise empty."""
    seeds = max(len(folders) for _, folders in shown)
    return "" if pools(figure) or seeds == 1 else f"one run of {seeds} seeds is shown of each case"


def draw(figure: model.OfRuns, shown: Shown, formats: Iterable[str] = ("svg", "png")) -> dict[str, bytes]:
    """The figure by file suffix; if there are too many cases, the first ones with a note."""
    some = shown[: most(figure)]
    recordings = [(label, Recording(folders[0])) for label, folders in some]
    remark = "; ".join(filter(None, (left_out(figure, len(shown)), _of_one_run(figure, shown))))
    with style.styled():
        match figure:
            case model.Timeline():
                drawn = timeline(figure, recordings, remark)
            case model.Sequence():
                drawn = sequence(figure, recordings, remark)
            case model.Distribution():
                pooled = [
                    (label, Pooled([Recording(folder) for folder in folders])) for label, folders in some
                ]
                drawn = distribution(figure, pooled, remark)
            case model.Diagram():
                drawn = diagram(figure, *recordings[0], remark)
        return style.save(drawn, formats)


# Series over time.


def timeline(figure: model.Timeline, recordings: list[tuple[str, Recording]], remark: str = "") -> Any:
    """One row per series, one column per case; rows have a common scale, so that cases can be compared.

    With more than four cases there are several bands of rows, which have common scales, too.
    """
    rows, cases = len(figure.series), len(recordings)
    columns = cases if cases <= ACROSS else COLUMNS
    bands = math.ceil(cases / columns)
    width = style.WIDTH if columns > 1 else style.WIDTH * 0.7
    drawn = style.figure(height=0.3 + bands * (0.45 + 1.3 * rows), width=width)
    style.title(drawn, figure.title, remark)
    grid = drawn.add_gridspec(bands * rows, columns)
    first: dict[int, Axes] = {}
    # One unit for all columns, because a row has one axis.
    rate = prefixed(max(map(_rate, (recording for _, recording in recordings)), default=0.0), "bit/s")
    view = _View(figure.flow, *rate)
    for place, (label, recording) in enumerate(recordings):
        band, column = divmod(place, columns)
        for row, kind in enumerate(figure.series):
            axes = drawn.add_subplot(
                grid[band * rows + row, column], sharex=first.get(0), sharey=first.get(row)
            )
            first.setdefault(row, axes)
            try:
                PANELS[kind](axes, recording, view)
            except NoDataError as error:
                style.absent(axes, str(error))
            axes.tick_params(labelbottom=row == rows - 1, labelleft=column == 0)
            if column:
                axes.set_ylabel("")
            _clip(axes, figure)
            if row == 0:
                style.heading(axes, label, counted(recording), width / columns)
            if row == rows - 1:
                axes.set_xlabel("Time (s)")
    drawn.align_ylabels()
    for row, kind in enumerate(figure.series):
        _scale(first[row], kind)
    return drawn


def _clip(axes: Axes, figure: model.Timeline | model.Sequence) -> None:
    if figure.start is not None:
        axes.set_xlim(left=seconds(figure.start))
    if figure.end is not None:
        axes.set_xlim(right=seconds(figure.end))


def _steps(axes: Axes, time: Array, values: Array, color: str) -> None:
    axes.plot(time, values, color=color, linewidth=0.9, drawstyle="steps-post", solid_joinstyle="round")
    axes.margins(x=0.01)


@dataclass(frozen=True, slots=True)
class _View:
    """What the panels of a timeline have in common."""

    flow: int | None
    """The number of the selected flow."""
    rate: float
    """The unit of rates in bit/s."""
    prefix: str
    """Its prefix."""


def _rate(recording: Recording) -> float:
    """The rate of the bottleneck in bit/s, or without one the highest throughput; 0 without data."""
    if recording.capacity is not None:
        return float(recording.capacity)
    try:
        return float(recording.throughput()[1].max(initial=0.0))
    except NoDataError:
        return 0.0


def _throughput(axes: Axes, recording: Recording, view: _View) -> None:
    time, bits = recording.throughput()
    _steps(axes, time, bits / view.rate, style.BLUE)
    capacity = recording.capacity
    if capacity is not None:
        axes.axhline(capacity / view.rate, color=style.GREY, linewidth=0.9, linestyle="--")
    interval = recording.interval
    what = "Throughput" if len(recording.flows) == 1 else "All flows"
    axes.set_ylabel(f"{what} ({view.prefix}bit/s)\nper {number(interval * 1e3)} ms")
    timeouts = recording.timeouts()
    if len(timeouts):
        top = np.full_like(timeouts, 0.97)
        axes.plot(timeouts, top, "v", color=style.RED, markersize=3.5, transform=axes.get_xaxis_transform())


def _flows(axes: Axes, recording: Recording, view: _View) -> None:
    """One lane per flow, so that a stalled flow is visible beside the active ones."""
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
    axes.set_ylabel(f"Each flow\n(lane: {number(top / view.rate)} {view.prefix}bit/s)")


def counted(recording: Recording) -> str:
    """The number of the sender's timeouts and of lost packets."""
    timeouts, lost = recording.timed_out, recording.dropped
    return f"{plural(timeouts, 'timeout')}, {plural(lost, 'drop')} in queues"


def plural(count: int, thing: str) -> str:
    """`1 timeout`, `no timeouts`, `7 timeouts`."""
    return f"{count or 'no'} {thing}{'' if count == 1 else 's'}"


def number(value: float) -> str:
    """Without an unnecessary fraction."""
    return f"{value:.3g}"


def _rtt(axes: Axes, recording: Recording, _: _View) -> None:
    time, rtt = recording.rtt()
    axes.plot(time, rtt * 1e3, ".", color=style.GREEN, markersize=1.6, rasterized=len(time) > MANY)
    axes.set_ylabel("RTT (ms)" if recording.logged else "Smoothed RTT (ms)")
    if recording.logged and len(rtt):
        style.note(axes, f"p99 {number(np.quantile(rtt, 0.99, method='inverted_cdf') * 1e3)} ms")


def _cwnd(axes: Axes, recording: Recording, view: _View) -> None:
    """Of the selected flow; otherwise of all flows, or with many of the one with most timeouts."""
    count = len(recording.flows)
    if view.flow is None and 1 < count <= MOST_WINDOWS:
        for number in range(1, count + 1):
            time, window = recording.cwnd(number)
            _steps(axes, time, window / 1e3, style.CYCLE[number - 1])
            axes.lines[-1].set_label(f"flow {number}, {recording.sender(number)}")
        axes.legend(loc="upper right", fontsize=6, frameon=True, framealpha=0.9, edgecolor="none")
        axes.set_ylabel("cwnd (KB)")
        return
    time, window = recording.cwnd(view.flow)
    _steps(axes, time, window / 1e3, style.PURPLE)
    axes.set_ylabel("cwnd (KB)" if count == 1 else f"cwnd (KB)\nof flow {recording.number(view.flow)}")


def _queue(axes: Axes, recording: Recording, _: _View) -> None:
    time, backlog = recording.backlog()
    _steps(axes, time, backlog / 1e3, style.ORANGE)
    axes.set_ylabel("Queue (KB)")


def _marks(axes: Axes, recording: Recording, _: _View) -> None:
    time, marks = recording.marks()
    _steps(axes, time, marks, style.RED)
    axes.set_ylabel(f"Marked (packets\nper {number(recording.interval * 1e3)} ms)")


PANELS: dict[str, Callable[[Axes, Recording, _View], None]] = {
    "throughput": _throughput,
    "flows": _flows,
    "rtt": _rtt,
    "cwnd": _cwnd,
    "queue": _queue,
    "marks": _marks,
}


def _row(axes: Axes) -> Iterator[Line2D]:
    """The maximum of all axes with this scale."""
    for sibling in axes.get_shared_y_axes().get_siblings(axes):
        yield from sibling.get_lines()


def _scale(axes: Axes, kind: str) -> None:
    if kind == "flows":
        return
    drawn = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in _row(axes)] or [np.ones(1)])
    low, high = (float(drawn.min()) if len(drawn) else 0.0), axes.get_ylim()[1]
    peaks = [peak for line in _curves(axes) if (peak := float(np.max(line, initial=0.0))) > 0]
    if kind == "rtt" and low > 0 and high / low > WIDE:
        log_axis(axes)
        axes.set_ylim(top=high * 2)
    elif kind in {"throughput", "cwnd"} and peaks and max(peaks) > WIDE * min(peaks):
        # On a linear axis small curves would be invisible beside those of other cases or beside the capacity.
        log_axis(axes)
        # A start or a pause may be cut off, the course of a curve may not.
        usual = [float(np.quantile(line[line > 0], 0.05)) for line in _curves(axes) if np.any(line > 0)]
        axes.set_ylim(min(min(peaks) / 10, min(usual) / 2), high * 2)
        axes.yaxis.set_major_locator(LogLocator(10))
    else:
        axes.set_ylim(0, high * 1.12)
        axes.yaxis.set_major_locator(MaxNLocator(5))


def _curves(axes: Axes) -> Iterator[Array]:
    """The values of the curves with this scale, and the capacity; not the marks of timeouts, which have no value."""
    for line in _row(axes):
        if line.get_drawstyle() == "steps-post" or line.get_linestyle() == "--":
            yield np.asarray(line.get_ydata(), dtype=float)


def log_axis(axes: Axes, which: str = "y") -> None:
    """A logarithmic axis with decimal labels: 0.1, 1, 10."""
    axis = axes.yaxis if which == "y" else axes.xaxis
    (axes.set_yscale if which == "y" else axes.set_xscale)("log")
    axis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


# Sequence numbers.


def sequence(figure: model.Sequence, recordings: list[tuple[str, Recording]], remark: str = "") -> Any:
    """The sender's sequence number over time; each stall is shaded and labelled with its length."""
    drawn = style.figure(height=0.5 + 2.6 * len(recordings))
    grid = drawn.subplots(len(recordings), 1, sharex=True, squeeze=False)
    style.title(drawn, figure.title, remark)
    for axes, (label, recording) in zip(grid[:, 0], recordings, strict=True):
        try:
            _sequence(axes, label, recording, figure)
        except NoDataError as error:
            style.absent(axes, str(error))
            style.heading(axes, label, "")
    grid[-1, 0].set_xlabel("Time (s)")
    return drawn


def _sequence(axes: Axes, label: str, recording: Recording, figure: model.Sequence) -> None:
    time, position, again = recording.sent(figure.flow)
    start = seconds(figure.start) if figure.start else 0.0
    end = seconds(figure.end) if figure.end else math.inf
    inside = (time >= start) & (time <= end)
    time, position, again = time[inside], position[inside], again[inside]
    megabyte = 1e6
    unit, prefix = (megabyte, "M") if np.max(position, initial=0.0) >= megabyte else (1e3, "K")
    position = position / unit
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
            terminal.number(float(f"{b - a:.3g}"), "s"),
            ((a + b) / 2, height),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=7,
            color="#333333",
        )
    axes.plot(time[again], position[again], "x", color=style.RED, markersize=4, label="retransmitted")
    axes.set_ylabel(f"Sequence number ({prefix}B)")
    axes.margins(x=0.01)
    axes.set_ylim(bottom=0 if start == 0 else None)
    handles, labels = axes.get_legend_handles_labels()
    if stalls:
        handles.append(axes.fill_between([], [], color=style.ORANGE, alpha=0.22, linewidth=0))
        labels.append(f"silence of {figure.stall} or more")
    legend = axes.legend(handles, labels, loc="lower right", frameon=True, framealpha=0.9, edgecolor="none")
    legend.legend_handles[0].set_markersize(5)  # type: ignore[union-attr]
    dropped = plural(recording.dropped, "drop")
    remark = (
        f"{plural(len(stalls), 'stall')}, {plural(int(again.sum()), 'retransmission')}, {dropped} in queues"
    )
    style.heading(axes, label, remark)


# Distributions.


def distribution(figure: model.Distribution, recordings: list[tuple[str, Pooled]], remark: str = "") -> Any:
    """Cumulative distribution with the medians in the legend below, or beside the line if there is only one."""
    lines = list(_distributions(figure, recordings))
    # Beside the lines, medians overlap each other and the axis.
    many = len(lines) > 1
    below = 0.16 * math.ceil(len(lines) / 2) if many else 0.0
    drawn = style.figure(height=2.6 + below, width=style.WIDTH if many else style.WIDTH * 0.7)
    axes = drawn.subplots()
    style.title(drawn, figure.title)
    if remark:  # the legend may occupy the place of the note in other figures
        axes.set_title(style.fold(remark, style.WIDTH), fontsize=7, color="#444444")
    for index, (label, values, share) in enumerate(lines):
        color, dashes = style.line(index)
        said = style.fold(label, style.WIDTH / 2 if many else style.WIDTH / 3)
        if not len(values):
            axes.plot([], [], color=color, linestyle=dashes, label=said)
            continue
        middle = values[np.searchsorted(share, 0.5)] * 1e3
        median = f"median {number(middle)} ms"
        axes.plot(
            values * 1e3,
            share * 100,
            color=color,
            linestyle=dashes,
            label=f"{said} ({median})" if many else said,
            drawstyle="steps-post",
        )
        axes.plot(middle, 50, "o", color=color, markersize=3.5)
        if not many:
            _beside(axes, median, middle, right=middle > values[-1] * 0.3, color=color)
    log_axis(axes, "x")
    completion = figure.of == "completion"
    axes.set_xlabel("Time to completion (ms)" if completion else "RTT (ms)")
    axes.set_ylabel("Flows and requests at or below (%)" if completion else "Samples at or below (%)")
    axes.set_ylim(0, 101)
    if many:
        drawn.legend(loc="outside lower center", ncols=2, fontsize=7)
    elif any(label for label, _, _ in lines):
        axes.legend(loc="lower right")
    return drawn


def _distributions(
    figure: model.Distribution, recordings: list[tuple[str, Pooled]]
) -> Iterator[tuple[str, Array, Array]]:
    """The label, the values and the shares of each line; without values where a recording has none."""
    for label, recording in recordings:
        try:
            if figure.of == "rtt":
                yield label, *recording.rtt()
            else:
                for size, values, share in recording.completions():
                    yield ", ".join(filter(None, (label, size))), values, share
        except NoDataError as error:
            yield f"{label} ({error})", np.empty(0), np.empty(0)


def _beside(axes: Axes, text: str, middle: float, *, right: bool, color: str) -> None:
    axes.annotate(
        text,
        (middle, 50),
        xytext=(-6, 4) if right else (6, -9),
        textcoords="offset points",
        ha="right" if right else "left",
        fontsize=7.5,
        color=color,
    )
