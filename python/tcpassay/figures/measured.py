"""Figures of a metric by the levels of one or two parameters, with the runs of all seeds pooled.

They have the width of one or two columns of proceedings. `Drawn.caption` says what the marks and bars are, and which
runs they are from, for the text below the figure.
"""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from tcpassay import levels
from tcpassay.errors import UserError
from tcpassay.figures import style
from tcpassay.figures.kinds import log_axis
from tcpassay.levels import Mean, Measured, Values, unit_of
from tcpassay.plan.document import suggest
from tcpassay.plan.quantity import Quantity, quantity
from tcpassay.plural import few, plural
from tcpassay.quantile import quantile
from tcpassay.terminal import prefixed

Kind = Literal["line", "bar", "box", "cdf", "heat"]
Scale = Literal["linear", "log"]
KINDS: Final = get_args(Kind)
MOST_LEVELS: Final = 60
"""Maximum number of levels of the first parameter in a figure."""
MOST_GROUPS: Final = {"line": 12, "bar": 6, "box": 6, "cdf": 12, "heat": 60}
"""Maximum number of levels of the second parameter; more could not be told apart."""
MOST_CELLS: Final = 16
"""A heat map with more columns in a page's width has no numbers in its cells."""
_UNITS: Final[dict[str, tuple[str, float]]] = {
    "a length of time": ("s", 1e-9),
    "a number of bytes": ("B", 1.0),
    "a rate": ("bit/s", 1.0),
    "a number of packets": ("packets", 1.0),
    "a number": ("1", 1.0),
}
_WORDS: Final = {"rtt": "RTT", "cwnd": "cwnd", "srtt": "SRTT", "rto": "RTO", "cv": "CV", "sd": "SD"}
_APART: Final = re.compile(r"^(-?[0-9.]+)([A-Za-z]+)$")
_WIDE_PARAMETER: Final = 8
"""A parameter whose levels differ by at least this factor has a logarithmic axis: levels usually double."""
_ALONG: Final = 20
"""Characters along the vertical axis of the lowest figure."""
_BESIDE: Final = 0.007
"""The share of the axis between lines at the same level, so that equal values do not hide each other."""
_POINTS: Final = 12
"""Boxes of fewer runs show every run."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a figure shows."""

    metric: str
    by: str
    group: str | None = None
    kind: Kind | None = None
    """By default a line if the levels of `by` are ordered and more than two, otherwise bars."""
    columns: Literal[1, 2] = 1
    """Width in columns of a page with two."""
    scale: Scale | None = None
    """Of the metric; by default logarithmic if the shown values differ by more than a factor of fifty."""
    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Texts of the figure by the metric, parameter or level for which they stand."""

    def label(self, name: str) -> str:
        """The text for a metric, a parameter or a level, whose unit is apart from its number."""
        known = self.labels.get(name)
        return style.plain(_APART.sub(r"\1 \2", name) if known is None else known)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure and what it shows, in a sentence."""

    figure: Figure
    caption: str


def draw(runs: Sequence[Measured], wanted: Wanted) -> Drawn:
    """Draws a figure. Raises `UserError` if no run has the metric, or if there are too many levels.

    It must be called and saved within `style.styled`.
    """
    found = levels.values(runs, wanted.metric, wanted.by, wanted.group)
    if not found.cells:
        raise UserError(f"no run has a value of `{wanted.metric}`")
    names = [wanted.metric, wanted.by, wanted.group or wanted.by, *found.rows, *found.columns]
    if wrong := next((name for name in wanted.labels if name not in names), None):
        raise UserError(f"`--label {wrong}`: this figure has no such name{suggest(wrong, names)}")
    kind = wanted.kind or _usual(found)
    for name, of, most in (
        (wanted.by, found.rows, MOST_GROUPS["cdf"] if kind == "cdf" else MOST_LEVELS),
        (wanted.group, found.columns, MOST_GROUPS[kind]),
    ):
        if len(of) > most:
            raise UserError(f"`{name}` has {len(of)} values; a figure of kind {kind} shows at most {most}")
    return Drawn(_KINDS[kind](found, wanted), _caption(found, wanted, kind, runs))


def _usual(found: Values) -> Kind:
    return "line" if len(found.rows) > 2 and _amounts(found.rows) else "bar"  # noqa: PLR2004 - two are no line


# Axes.


def _amounts(texts: Sequence[str]) -> list[Quantity] | None:
    """The quantities of levels; `None` if they are not numbers of one kind."""
    made = [quantity(text) for text in texts]
    return made if made and all(one.comparable(made[0]) for one in made) else None


def _named(name: str, unit: str, prefix: str) -> str:
    return name if unit == "1" else f"{name} ({prefix}{unit})"


def metric_name(name: str) -> str:
    """A metric in words: `rtt_p99` is `RTT p99`."""
    words = [_WORDS.get(word, word) for word in name.split("_")]
    return " ".join(
        [words[0][:1].upper() + words[0][1:] if words[0] not in _WORDS.values() else words[0], *words[1:]]
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    """The scale of the values of a metric on an axis."""

    unit: float
    label: str
    scale: Scale
    negative: bool
    """Whether a value is below zero."""
    least: float
    """The smallest shown value, in the unit of the axis."""


def _value_axis(found: Values, wanted: Wanted, *, means: bool = False, bars: bool = False) -> _Axis:
    """The axis of values, or of their means."""
    cells = found.cells.values()
    each = (
        [mean.mean for place in found.cells if (mean := found.mean(*place)) is not None]
        if means
        else [one for values in cells for one in values]
    )
    unit, prefix = prefixed(max(map(abs, each)), unit_of(wanted.metric))
    positive = min(each) > 0
    wide = positive and max(each) / min(each) > 50 and not bars  # noqa: PLR2004 - documented with the option
    scale: Scale = wanted.scale or ("log" if wide else "linear")
    if scale == "log" and not positive:
        raise UserError(
            f"`{wanted.metric}` has values that are not positive, which a logarithmic axis cannot show"
        )
    name = wanted.labels.get(wanted.metric) or metric_name(wanted.metric)
    label = _named(style.plain(name), unit_of(wanted.metric), prefix)
    return _Axis(unit, label, scale, min(each) < 0, min(each) / unit)


def _apply(axes: Axes, axis: _Axis, which: Literal["x", "y"], *, zero: bool) -> None:
    if which == "y":
        axes.set_ylabel("\n".join(textwrap.wrap(axis.label, _ALONG)))
    else:
        axes.set_xlabel(axis.label)
    if axis.scale == "log":
        log_axis(axes, which)
        low, high = axes.get_ylim() if which == "y" else axes.get_xlim()
        # An interval that reaches zero ends at the edge and does not stretch the axis by decades.
        (axes.set_ylim if which == "y" else axes.set_xlim)(max(low, axis.least / 2), high)
        return
    low, high = axes.get_ylim() if which == "y" else axes.get_xlim()
    # An axis that does not start at zero exaggerates differences; one that does hides small ones.
    if zero or (not axis.negative and low < high / 2):
        (axes.set_ylim if which == "y" else axes.set_xlim)(low if axis.negative else 0.0, high)
    (axes.yaxis if which == "y" else axes.xaxis).set_major_locator(MaxNLocator(5))


def _page(wanted: Wanted, height: float, entries: Sequence[str] = ()) -> Figure:
    """An empty figure of the width of the columns, higher by the rows of its legend."""
    width = style.COLUMN if wanted.columns == 1 else style.WIDTH
    made = style.figure(height + 0.17 * math.ceil(len(entries) / _across(wanted, entries)), width)
    style.title(made, wanted.title)
    return made


def _across(wanted: Wanted, entries: Sequence[str]) -> int:
    """The number of entries of a legend that fit beside each other."""
    width = style.COLUMN if wanted.columns == 1 else style.WIDTH
    longest = max(map(len, entries), default=1)
    return max(1, min(len(entries), int(width / (0.42 + 0.068 * longest))))


def _legend(drawn: Figure, wanted: Wanted, handles: Sequence[Any], texts: Sequence[str]) -> None:
    if len(texts) < 2 and not any(texts):  # noqa: PLR2004 - one line needs no name
        return
    drawn.legend(
        handles,
        texts,
        loc="outside upper center",
        ncols=_across(wanted, texts),
        columnspacing=1.2,
        handlelength=2.4,
        borderaxespad=0.1,
    )


def _groups(found: Values, wanted: Wanted) -> list[str]:
    return [style.fold(wanted.label(column), style.COLUMN) if column else "" for column in found.columns]


# Kinds.


def _line(found: Values, wanted: Wanted) -> Figure:
    amounts = _amounts(found.rows)
    if amounts is None:
        raise UserError(
            f"the values of `{wanted.by}` are not ordered; `--kind bar` shows them beside each other"
        )
    base, to_base = _UNITS[amounts[0].kind]
    places = [float(one.amount) * to_base for one in amounts]
    # The unit of the middle level: 50, 100, 200, 1000 KB instead of 0.05, 0.1, 0.2, 1 MB.
    per, prefix = prefixed(sorted(map(abs, places))[(len(places) - 1) // 2], base)
    places = [place / per for place in places]
    texts = _groups(found, wanted)
    drawn = _page(wanted, 2.05, texts if any(texts) else ())
    axes = drawn.subplots()
    axis = _value_axis(found, wanted, means=True)
    axes.set_xlabel(_named(wanted.label(wanted.by), base, prefix))
    if min(places) > 0 and max(places) / min(places) >= _WIDE_PARAMETER:
        axes.set_xscale("log")
    handles = []
    for number, column in enumerate(found.columns):
        points = [(place, found.mean(row, column)) for place, row in zip(places, found.rows, strict=True)]
        shown = [(place, one) for place, one in points if one is not None]
        colour, dashes = style.line(number)
        beside = _BESIDE * (number - (len(found.columns) - 1) / 2)
        handles.append(
            axes.errorbar(
                [_moved(axes, place, beside, places) for place, _ in shown],
                [one.mean / axis.unit for _, one in shown],
                yerr=_bars([one for _, one in shown], axis),
                color=colour,
                linestyle=dashes,
                marker=style.MARKERS[number % len(style.MARKERS)],
                markersize=3.6,
                capsize=2,
                elinewidth=0.8,
            )
        )
    _ticks(axes, places)
    _apply(axes, axis, "y", zero=False)
    _legend(drawn, wanted, handles, texts)
    return drawn


def _moved(axes: Axes, place: float, share: float, places: Sequence[float]) -> float:
    """A place that is moved by a share of the range of all places on the axis."""
    if axes.get_xscale() == "log":
        return float(place * (max(places) / min(places)) ** share)
    return place + share * (max(places) - min(places))


def _ticks(axes: Axes, places: Sequence[float]) -> None:
    """A tick at each level, or at those that leave room for their labels."""
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    low, high = axes.get_xlim()
    logarithmic = axes.get_xscale() == "log"

    def share(place: float) -> float:
        if logarithmic:
            return math.log(place / low) / math.log(high / low)
        return (place - low) / (high - low)

    kept: list[float] = []
    for place in sorted(places):
        if not kept or share(place) - share(kept[-1]) >= 0.08:  # noqa: PLR2004 - the width of a label
            kept.append(place)
    axes.set_xticks(kept)


def _bars(means: Sequence[Mean], axis: _Axis) -> Any:
    """The halves of intervals; a lower end that is not positive is cut on a logarithmic axis."""
    halves = np.array([math.nan if one.half is None else one.half for one in means]) / axis.unit
    centres = np.array([one.mean for one in means]) / axis.unit
    lower = np.minimum(halves, centres * 0.999) if axis.scale == "log" else halves
    return np.array([lower, halves])


def _slots(found: Values) -> tuple[float, list[float]]:
    """The width of one of the marks of a level, and their offsets from its centre."""
    count = len(found.columns)
    width = 0.8 / count
    return width, [(number - (count - 1) / 2) * width for number in range(count)]


def _categories(axes: Axes, found: Values, wanted: Wanted) -> None:
    """The levels of the first parameter as categories, inclined if they do not fit beside each other."""
    texts = [wanted.label(row) for row in found.rows]
    width = style.COLUMN if wanted.columns == 1 else style.WIDTH
    inclined = sum(map(len, texts)) * 0.075 + 0.08 * len(texts) > width - 0.6
    axes.set_xticks(range(len(texts)), texts)
    if inclined:
        axes.tick_params(axis="x", rotation=35)
        for text in axes.get_xticklabels():
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel(wanted.label(wanted.by))
    axes.set_xlim(-0.6, len(texts) - 0.4)
    axes.grid(visible=False, axis="x")


def _bar(found: Values, wanted: Wanted) -> Figure:
    texts = _groups(found, wanted)
    drawn = _page(wanted, 2.05, texts if any(texts) else ())
    axes = drawn.subplots()
    axis = _value_axis(found, wanted, means=True, bars=True)
    width, offsets = _slots(found)
    handles: list[Any] = []
    for number, (column, offset) in enumerate(zip(found.columns, offsets, strict=True)):
        shown = [(place, one) for place, row in enumerate(found.rows) if (one := found.mean(row, column))]
        if axis.scale == "log":
            # The length of a bar would depend on where the axis begins.
            handles.append(
                axes.errorbar(
                    [place + offset for place, _ in shown],
                    [one.mean / axis.unit for _, one in shown],
                    yerr=_bars([one for _, one in shown], axis),
                    color=style.CYCLE[number % len(style.CYCLE)],
                    linestyle="none",
                    marker=style.MARKERS[number % len(style.MARKERS)],
                    markersize=4.5,
                    capsize=2,
                    elinewidth=0.8,
                )
            )
            continue
        look: Any = {
            "color": _light(style.CYCLE[number % len(style.CYCLE)]),
            "edgecolor": "#333333",
            "linewidth": 0.6,
            "hatch": style.HATCHES[number % len(style.HATCHES)],
        }
        axes.bar(
            [place + offset for place, _ in shown],
            [one.mean / axis.unit for _, one in shown],
            width=width * 0.92,
            yerr=_bars([one for _, one in shown], axis),
            error_kw={"capsize": 2, "elinewidth": 0.8, "capthick": 0.8, "ecolor": "#111111"},
            **look,
        )
        handles.append(Patch(facecolor=look.pop("color"), **look))
    _categories(axes, found, wanted)
    _apply(axes, axis, "y", zero=True)
    _legend(drawn, wanted, handles, texts)
    return drawn


def _light(colour: str) -> tuple[float, float, float]:
    """A colour of the style mixed with white, on which hatches and error bars are visible."""
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return (0.35 + 0.65 * red, 0.35 + 0.65 * green, 0.35 + 0.65 * blue)


def _box(found: Values, wanted: Wanted) -> Figure:
    texts = _groups(found, wanted)
    drawn = _page(wanted, 2.05, texts if any(texts) else ())
    axes = drawn.subplots()
    axis = _value_axis(found, wanted)
    width, offsets = _slots(found)
    handles = []
    for number, (column, offset) in enumerate(zip(found.columns, offsets, strict=True)):
        colour = style.CYCLE[number % len(style.CYCLE)]
        for place, row in enumerate(found.rows):
            values = sorted(value / axis.unit for value in found.cells.get((row, column), ()))
            if not values:
                continue
            at = place + offset
            axes.bxp(
                [_five(values)],
                positions=[at],
                widths=width * 0.8,
                showfliers=False,
                patch_artist=True,
                manage_ticks=False,
                boxprops={"facecolor": _light(colour), "edgecolor": "#333333", "linewidth": 0.6},
                medianprops={"color": "#111111", "linewidth": 1.2},
                whiskerprops={"color": "#333333", "linewidth": 0.7},
                capprops={"color": "#333333", "linewidth": 0.7},
            )
            if len(values) <= _POINTS:
                spread = np.linspace(-0.22, 0.22, len(values)) * width
                axes.plot(at + spread, values, ".", color="#222222", markersize=2.4, zorder=3)
        handles.append(Patch(facecolor=_light(colour), edgecolor="#333333", linewidth=0.6))
    _categories(axes, found, wanted)
    _apply(axes, axis, "y", zero=False)
    _legend(drawn, wanted, handles, texts)
    return drawn


def _five(values: Sequence[float]) -> dict[str, float]:
    """The numbers of a box: whiskers end at the smallest and the largest run."""
    return {
        "whislo": values[0],
        "q1": quantile(values, 0.25),
        "med": quantile(values, 0.5),
        "q3": quantile(values, 0.75),
        "whishi": values[-1],
    }


def _cdf(found: Values, wanted: Wanted) -> Figure:
    few = len(found.rows) <= len(style.CYCLE) and 1 < len(found.columns) <= len(style.LINES)
    lines = [
        (
            ", ".join(wanted.label(text) for text in (row, column) if text),
            sorted(found.cells[row, column]),
            (style.CYCLE[y], style.LINES[x]) if few else style.line(y * len(found.columns) + x),
        )
        for y, row in enumerate(found.rows)
        for x, column in enumerate(found.columns)
        if (row, column) in found.cells
    ]
    if len(lines) > style.PAIRS:
        raise UserError(
            f"{len(lines)} lines; a figure shows at most {style.PAIRS}: select values with --where"
        )
    texts = [text for text, _, _ in lines]
    drawn = _page(wanted, 2.05, texts)
    axes = drawn.subplots()
    axis = _value_axis(found, wanted)
    handles = []
    for _, values, (colour, dashes) in lines:
        steps = np.array([values[0], *values]) / axis.unit
        share = np.arange(len(values) + 1) / len(values) * 100
        handles += axes.plot(steps, share, color=colour, linestyle=dashes, drawstyle="steps-post")
    axes.set_ylabel("Runs at or below (%)")
    axes.set_ylim(0, 102)
    _apply(axes, axis, "x", zero=False)
    _legend(drawn, wanted, handles, texts)
    return drawn


def _heat(found: Values, wanted: Wanted) -> Figure:
    if wanted.group is None:
        raise UserError("`--kind heat` needs two parameters: give the columns with `--group`")
    axis = _value_axis(found, wanted)
    means = np.full((len(found.rows), len(found.columns)), math.nan)
    for y, row in enumerate(found.rows):
        for x, column in enumerate(found.columns):
            if one := found.mean(row, column):
                means[y, x] = one.mean / axis.unit
    drawn = _page(wanted, 0.75 + 0.3 * len(found.rows))
    axes = drawn.subplots()
    norm = "log" if axis.scale == "log" else "linear"
    image = axes.pcolormesh(means, cmap="cividis", norm=norm, edgecolors="white", linewidth=0.6)
    axes.grid(visible=False)
    axes.invert_yaxis()
    axes.set_facecolor("#eeeeee")
    if len(found.columns) <= MOST_CELLS / (3 - wanted.columns):
        shades = np.asarray(image.norm(np.nan_to_num(means)), dtype=float)
        for (y, x), value in np.ndenumerate(means):
            if math.isnan(value):
                axes.text(x + 0.5, y + 0.5, "-", ha="center", va="center", fontsize=7, color="#777777")
                continue
            dark = shades[y, x] < 0.55  # noqa: PLR2004 - cividis is bright above
            axes.text(
                x + 0.5,
                y + 0.5,
                f"{value:.3g}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if dark else "black",
            )
    for ticks, of in ((axes.set_xticks, found.columns), (axes.set_yticks, found.rows)):
        ticks(np.arange(len(of)) + 0.5, [wanted.label(text) for text in of])
    axes.tick_params(length=0)
    axes.set_xlabel(wanted.label(wanted.group))
    axes.set_ylabel(wanted.label(wanted.by))
    for side in axes.spines.values():
        side.set_visible(False)
    bar = drawn.colorbar(image, ax=axes, pad=0.02, aspect=14)
    bar.set_label("\n".join(textwrap.wrap(axis.label, _ALONG)))
    bar.outline.set_visible(False)
    return drawn


_KINDS: Final = {"line": _line, "bar": _bar, "box": _box, "cdf": _cdf, "heat": _heat}


# The caption.

_MARKS: Final[dict[str, str]] = {
    "line": "mean and Student's 95 % confidence interval",
    "bar": "mean and Student's 95 % confidence interval",
    "box": "median, quartiles, smallest and largest run",
    "cdf": "share of the runs",
    "heat": "mean",
}


def _caption(found: Values, wanted: Wanted, kind: Kind, runs: Sequence[Measured]) -> str:
    counts = [len(values) for values in found.cells.values()]
    many = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    place = "a line" if kind == "cdf" else "a cell" if kind == "heat" else "a value"
    marks = _MARKS[kind]
    if kind in {"line", "bar"} and max(counts) == 1:
        marks = "single runs, without intervals"
    by = wanted.by + (f" and {wanted.group}" if wanted.group else "")
    said = f"{wanted.metric} by {by}: {marks}; {many} distinct {'run' if many == '1' else 'runs'} {place}"
    seeds = sorted({run.seed for run in runs})
    said += f", {_seeds(seeds)}"
    if found.over:
        said += f"; over all values of {few(found.over)} (--where selects some)"
    if found.without:
        said += f"; no value where {few(found.without)}"
    return f"{said}."


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"{plural(len(seeds), 'seed')}"
