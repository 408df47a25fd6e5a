"""An explanation as a drawing: two time lines, an arrow for each segment, and the events of each end.

Time runs down but is not to scale: each line has the same height, and a gap is a band with its length.
"""

import math
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

from tcpassay.explain.explanation import Explanation
from tcpassay.explain.lines import Gap, Line, Look, Omitted
from tcpassay.explain.moments import End
from tcpassay.explain.words import marks, neighbour_words, run_words
from tcpassay.judge.words import ms

_WIDTH: Final = 980
_X: Final = (390, 610)
"""Of the two time lines."""
_TIME_X: Final = 8
_ROW: Final = 15
_TOP: Final = 78
_SLOPE: Final = 10
"""Height of an arrow whose other end is not displayed."""
_WRAP: Final = 44
"""Maximum number of characters of a text beside a time line."""
_COLOURS: Final = {Look.DATA: "#0b5394", Look.ACK: "#38761d", Look.INNER: "#555555", Look.BAD: "#c00000"}
_MARK: Final = "#8e44ad"
_STYLE: Final = (
    "text{font:11px system-ui,sans-serif;fill:#222}.time{font:10px ui-monospace,monospace;fill:#777}"
    ".head{font-weight:600;font-size:13px}.title{font-weight:600;font-size:14px}.note{fill:#555}"
)


Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Placed:
    line: Line
    y: float


def drawn(explanation: Explanation) -> str:
    """The drawing as SVG."""
    body: list[str] = []
    placed: dict[int, _Placed] = {}
    y = float(_TOP)
    last = ""
    for one in explanation.shown:
        y += _ROW
        if isinstance(one, Line):
            placed |= dict.fromkeys(one.places, _Placed(one, y))
            time = f"{one.time_ns / 1e6:.3f}"
            if time != last:
                body.append(_label(_TIME_X, y + 3, time, kind="time"))
            last = time
            texts, height = _beside(one, y)
        else:
            texts, height = _between(one, y)
            last = ""
        body += texts
        y += height
    bottom = y + _ROW
    lines = [_stroke((x, _TOP - 6), (x, bottom), "#999", 1.5) for x in _X]
    foot = [*neighbour_words(explanation), marks(explanation)]
    notes = [_label(_TIME_X, bottom + 18 + 15 * n, text, kind="note") for n, text in enumerate(foot)]
    size = (_WIDTH, round(bottom + 26 + 15 * len(foot)))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}"',
        f' width="{size[0]}" height="{size[1]}" role="img">',
        f"<title>{escape(explanation.finding.title)}</title><style>{_STYLE}</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        *_head(explanation),
        *lines,
        *_arrows(explanation, placed),
        *body,
        *notes,
        "</svg>\n",
    ]
    return "".join(parts)


def _label(  # noqa: PLR0913 - attributes of an SVG element
    x: float, y: float, text: str, *, kind: str = "", anchor: str = "start", style: str = ""
) -> str:
    said = f' class="{kind}"' if kind else ""
    said += f' style="{style}"' if style else ""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"{said}>{escape(text)}</text>'


def _stroke(start: Point, end: Point, colour: str, width: float = 1.3) -> str:
    ends = f'x1="{start[0]:.0f}" y1="{start[1]:.1f}" x2="{end[0]:.0f}" y2="{end[1]:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def _head(explanation: Explanation) -> list[str]:
    names = explanation.connection.names
    return [
        _label(_TIME_X, 20, explanation.finding.title, kind="title"),
        _label(_TIME_X, 38, ". ".join(filter(None, (explanation.name, run_words(explanation)))), kind="note"),
        _label(_TIME_X, _TOP - 12, "ms", kind="time"),
        _label(
            _X[0],
            _TOP - 12,
            f"{names[End.SENDER]} (sends {explanation.connection.flow})",
            kind="head",
            anchor="end",
        ),
        _label(_X[1], _TOP - 12, names[End.RECEIVER], kind="head"),
    ]


def _beside(one: Line, y: float) -> tuple[list[str], float]:
    colour = _MARK if one.first_difference else _COLOURS[one.look]
    text = one.text + (" *" if one.first_difference else "")
    return _text(text, one.end, y, colour, bold=one.look is Look.BAD or one.first_difference)


def _text(text: str, end: End, y: float, colour: str, *, bold: bool = False) -> tuple[list[str], float]:
    """The text beside a time line, and how much higher than one line it is."""
    x = _X[end] + (-8 if end is End.SENDER else 8)
    anchor = "end" if end is End.SENDER else "start"
    style = f"fill:{colour}" + (";font-weight:600" if bold else "")
    wrapped = textwrap.wrap(text, _WRAP) or [""]
    made = [_label(x, y + 4 + 13 * n, part, anchor=anchor, style=style) for n, part in enumerate(wrapped)]
    return made, 13.0 * (len(wrapped) - 1)


def _between(one: Gap | Omitted, y: float) -> tuple[list[str], float]:
    middle = (_X[0] + _X[1]) / 2
    if isinstance(one, Omitted):
        return [_label(middle, y + 4, f"{one.count} lines left out", kind="note", anchor="middle")], 0.0
    texts: list[str] = []
    height = 0.0
    for end in End:
        some, tall = _text(one.waits[end], end, y + 10, "#7f6000")
        texts += some
        height = max(height, tall)
    height += 26
    corner = f'x="{_X[0]}" y="{y - 2:.0f}"'
    band = f'<rect {corner} width="{_X[1] - _X[0]}" height="{height:.0f}" fill="#fff2cc"/>'
    said = _label(middle, y + height / 2 + 2, f"silence of {ms(one.end_ns - one.start_ns)}", anchor="middle")
    return [band, said, *texts], height - _ROW + 6


def _arrows(explanation: Explanation, placed: Mapping[int, _Placed]) -> Iterator[str]:
    """One arrow for each pair of lines; of a segment whose other end is not shown, an arrow from or to the margin."""
    known: set[tuple[float | None, float | None]] = set()
    for arrow in explanation.arrows:
        left = placed.get(arrow.left)
        come = None if arrow.arrived is None else placed.get(arrow.arrived)
        some = left or come
        key = (left.y if left else None, come.y if come else None)
        if some is None or key in known:
            continue
        known.add(key)
        end = some.line.end if some.line.sent else End(1 - some.line.end)
        start = (float(_X[end]), left.y if left else some.y - _SLOPE)
        stop = (float(_X[1 - end]), come.y if come else start[1] + _SLOPE)
        colour = _COLOURS[some.line.look]
        if arrow.arrived is None:
            stop = ((start[0] + stop[0]) / 2, stop[1])
            yield _stroke(start, stop, colour)
            yield _label(stop[0], stop[1] + 4, "✕", anchor="middle", style=f"fill:{_COLOURS[Look.BAD]}")
        else:
            yield _stroke(start, stop, colour)
            yield _point(start, stop, colour)


def _point(start: Point, stop: Point, colour: str) -> str:
    """The head of an arrow."""
    length = max(math.dist(start, stop), 1.0)
    ux, uy = (stop[0] - start[0]) / length, (stop[1] - start[1]) / length
    back = (stop[0] - 8 * ux, stop[1] - 8 * uy)
    corners = (stop, (back[0] - 3.5 * uy, back[1] + 3.5 * ux), (back[0] + 3.5 * uy, back[1] - 3.5 * ux))
    return f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)}" fill="{colour}"/>'
