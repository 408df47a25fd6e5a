"""The style of figures.

Readable in two-column proceedings and for colour-blind readers, with identical bytes for identical data.
"""

import textwrap
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Okabe and Ito's colours, distinguishable with any kind of colour vision.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#777777",
)
CYCLE = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "////", "\\\\\\\\", "....", "xxxx", "----")
PAIRS = len(CYCLE) * len(LINES)
"""Number of distinguishable lines: each has its own pair of colour and dashes."""

# In inches: the text width of a two-column page.
WIDTH = 7.0
COLUMN = 3.35
"""The width of one of its columns."""
# Characters of a title per inch, at its font size.
_PER_INCH = 14
_MOST_LINES = 3

RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "lines.linewidth": 1.1,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "tcpassay",
    "svg.fonttype": "path",
    # TrueType; many proceedings refuse the default, fonts of Type 3.
    "pdf.fonttype": 42,
    "hatch.linewidth": 0.5,
    "path.simplify": True,
    # Titles and labels are plain text: `$` does not start a formula.
    "text.parse_math": False,
    "text.usetex": False,
}

PNG_DPI = 200


@contextmanager
def styled() -> Iterator[None]:
    """Context for drawing: matplotlib's settings are restored afterwards, and the user's `matplotlibrc` is ignored."""
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(RC)
        # A warning would appear on the terminal or end the run. The only possible one is about a character that the
        # font lacks, which is drawn as a box.
        warnings.simplefilter("ignore")
        yield


def line(index: int) -> tuple[str, str]:
    """Colour and dashes of the line with this index; different for the first `PAIRS` lines."""
    colours, dashes = len(CYCLE), len(LINES)
    # Incrementing both together gives half of the pairs; from then on the dashes are shifted by one.
    return CYCLE[index % colours], LINES[(index + index // (PAIRS // 2)) % dashes]


def plain(text: str) -> str:
    """A text of the user as one line without control characters."""
    return " ".join("".join(c if c.isprintable() or c.isspace() else "\ufffd" for c in text).split())


def fold(text: str, inches: float) -> str:
    """A title wrapped to the width, with at most three lines."""
    width = max(8, int(inches * _PER_INCH))
    return "\n".join(textwrap.wrap(plain(text), width, max_lines=_MOST_LINES, placeholder=" \u2026"))


def figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, with its size in inches, that needs no display."""
    made = Figure(figsize=(width, height))
    FigureCanvasAgg(made)
    return made


_METADATA: Any = {
    "svg": {"Date": None, "Creator": "tcpassay"},
    "pdf": {"CreationDate": None, "Creator": "tcpassay", "Producer": None},
    "png": {"Software": None},
}
FORMATS = tuple(_METADATA)
"""The formats of figures, which are the suffixes of their files."""


def save(drawn: Figure, formats: Iterable[str] = ("svg", "png")) -> dict[str, bytes]:
    """The figure by format, without dates or versions, so that equal data gives equal files."""
    files = {}
    # The layout takes most of the time and is the same for all formats.
    engine = drawn.get_layout_engine()
    if engine is not None:
        engine.execute(drawn)
        drawn.set_layout_engine("none")
    for suffix in formats:
        out = BytesIO()
        drawn.savefig(out, format=suffix, dpi=PNG_DPI, metadata=_METADATA[suffix], facecolor="white")
        files[suffix] = out.getvalue()
    return files


def note(axes: Axes, text: str) -> None:
    """A note in the upper right corner of the axes."""
    axes.annotate(
        text,
        (1, 1),
        xytext=(-2, -2),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=7,
        color="#333333",
        bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
    )


def title(drawn: Figure, text: str, remark: str = "") -> None:
    """The title above a figure, and below it a smaller line about omitted cases."""
    width = float(drawn.get_figwidth())
    if text:
        drawn.suptitle(fold(text, width), fontsize=9.5, fontweight="bold")
    if remark:
        drawn.supxlabel(fold(remark, width), fontsize=7, color="#444444")


def absent(axes: Axes, why: str) -> None:
    """A text in empty axes with the reason why nothing is drawn."""
    axes.annotate(
        why, (0.5, 0.5), xycoords="axes fraction", ha="center", va="center", fontsize=7, color="#444444"
    )


def heading(axes: Axes, label: str, remark: str, inches: float = WIDTH) -> None:
    """The heading of the axes, and a smaller note below it."""
    axes.set_title(fold(label, inches), pad=14 if label else None)
    axes.annotate(
        remark,
        (0.5, 1),
        xytext=(0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        ha="center",
        fontsize=7,
        color="#444444",
    )
