"""The sequence diagram of a flow: two time lines, an arrow per segment, and the decisions of both ends.

Time increases downwards and is not to scale: each event has a line of the same height, and a silence is a band.
"""

import textwrap
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes

from tcpassay.explain.arrows import arrows
from tcpassay.explain.lines import Gap, Line, Look, Shown, lines, with_gaps
from tcpassay.explain.moments import Connection, End, connection
from tcpassay.figures import style
from tcpassay.figures.data import NoDataError, Recording
from tcpassay.interface import EventKind
from tcpassay.judge.log import LogFile
from tcpassay.judge.registry import logged
from tcpassay.plan import model

AFTER: Final = 3
"""Segments after the stall."""
_X: Final = {End.SENDER: 0.0, End.RECEIVER: 1.0}
_COLOURS: Final = {Look.DATA: style.BLUE, Look.ACK: style.GREEN, Look.INNER: "#555555", Look.BAD: style.RED}
_LEFT: Final = -1.75
_RIGHT: Final = 2.45
_BESIDE: Final = 46
"""Characters beside a time line."""
_ROW: Final = 0.17
"""Inches of a line."""


def diagram(figure: model.Diagram, label: str, recording: Recording, remark: str = "") -> Any:
    """The diagram of the flow around the longest time in which its sender neither received nor sent a segment."""
    if not recording.logged:
        raise NoDataError("no event log")
    kept = recording.whole
    flow = kept.flows[recording.watched(figure.flow)]["name"]
    log = LogFile(kept)
    told = connection(kept, log, flow, timers_known=EventKind.TIMER_SET in logged(kept))
    during = _window(told, figure.segments)
    base = _base(told, during)
    found = arrows(told)
    shown = with_gaps(told, lines(told, found, during, base, None), base)
    drawn = style.figure(height=0.9 + _ROW * sum(_height(one) for one in shown))
    axes = drawn.subplots()
    style.title(drawn, figure.title, remark)
    places = _rows(axes, shown)
    for arrow in found:
        _arrow(axes, told, places, arrow.left, arrow.arrived)
    bottom = max((row for row, _ in places.values()), default=0.0) + 1.5
    for end, x in _X.items():
        axes.plot([x, x], [-0.6, bottom], color=style.GREY, linewidth=1)
        axes.text(x, -1.0, told.names[end], ha="center", va="bottom", fontweight="bold", fontsize=8)
    axes.set_xlim(_LEFT, _RIGHT)
    axes.set_ylim(bottom, -1.8)
    axes.set_axis_off()
    if label:
        axes.set_title(style.fold(label, style.WIDTH), fontsize=8)
    return drawn


def _window(told: Connection, segments: int) -> tuple[int, int]:
    """The events from some segments before the longest pause of the sender to some after it."""
    times = [one.time_ns for one in told.moments if one.segment]
    at_sender = np.array([one.time_ns for one in told.moments if one.segment and one.end == End.SENDER])
    if len(at_sender) < 2:  # noqa: PLR2004 - a pause has two ends
        raise NoDataError("too few segments")
    stall = int(np.argmax(np.diff(at_sender)))
    start, end = int(at_sender[stall]), int(at_sender[stall + 1])
    before = [time for time in times if time <= start][-segments:]
    after = [time for time in times if time >= end][:AFTER]
    return before[0], after[-1]


def _base(told: Connection, during: tuple[int, int]) -> int:
    """The lowest stream position that the displayed segments carry or acknowledge; it is displayed as 1."""
    said = [
        one.start if one.sent == (one.end == End.SENDER) else one.number("ack") or 0
        for one in told.between(*during)
        if one.segment
    ]
    return max(min(said, default=1), 1)


def _height(one: Shown) -> float:
    return 1.0 if isinstance(one, Line) else 4.2


def _rows(axes: Axes, shown: list[Shown]) -> dict[int, tuple[float, Line]]:
    """Draws the lines and returns the row of each time."""
    places: dict[int, tuple[float, Line]] = {}
    row = 0.0
    said = ""
    for one in shown:
        if isinstance(one, Line):
            time = f"{one.time_ns / 1e6:.3f} ms"
            places |= dict.fromkeys(one.places, (row, one))
            right = one.end == End.RECEIVER
            axes.text(
                _X[one.end] + (0.03 if right else -0.03),
                row,
                style.plain(one.text),
                ha="left" if right else "right",
                va="center",
                fontsize=6.5,
                color=_COLOURS[one.look],
            )
            axes.text(_LEFT, row, "" if time == said else time, fontsize=5.5, color="#777777", va="center")
            said = time
        elif isinstance(one, Gap):
            axes.axhspan(
                row - 0.4, row + _height(one) - 1.0, xmin=0.02, xmax=0.98, color=style.ORANGE, alpha=0.18
            )
            length = (one.end_ns - one.start_ns) / 1e6
            axes.text(
                0.5, row + 1.4, f"{length:.3g} ms of silence", ha="center", fontsize=7, fontweight="bold"
            )
            for end, text in one.waits.items():
                x, side = (_X[end] + 0.03, "left") if end == End.RECEIVER else (_X[end] - 0.03, "right")
                axes.text(
                    x, row + 1.4, textwrap.fill(style.plain(text), _BESIDE), ha=side, va="center", fontsize=6
                )
        row += _height(one)
    return places


def _arrow(
    axes: Axes, told: Connection, places: dict[int, tuple[float, Line]], left: int, arrived: int | None
) -> None:
    """Draws an arrow between two rows, or a short arrow if one end is not displayed."""
    if left not in places:
        return
    row, line = places[left]
    start = _X[line.end]
    there = _X[End.RECEIVER if line.end == End.SENDER else End.SENDER]
    to = (there, places[arrived][0]) if arrived in places else (start + (there - start) * 0.45, row + 0.5)
    data = told.moments[left].data
    axes.annotate(
        "",
        to,
        (start, row),
        arrowprops={
            "arrowstyle": "-|>",
            "color": style.BLUE if data else style.GREEN,
            "linewidth": 0.7,
            "shrinkA": 0,
            "shrinkB": 0,
        },
    )
