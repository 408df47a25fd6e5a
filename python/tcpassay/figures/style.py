"""How figures look: readable in two columns of a proceedings page, by colour-blind eyes, the same bytes each time."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Okabe and Ito's colours: told apart with any kind of colour vision.
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

# Inches: the text width of a two-column page.
WIDTH = 7.0

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
    "path.simplify": True,
}

PNG_DPI = 200


@contextmanager
def styled() -> Iterator[None]:
    """Draw inside: matplotlib's settings are restored afterwards."""
    with mpl.rc_context(RC), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, in inches, that needs no display."""
    made = Figure(figsize=(width, height))
    FigureCanvasAgg(made)
    return made


def save(drawn: Figure) -> dict[str, bytes]:
    """The figure as SVG and PNG, without dates or versions, so that equal data make equal files."""
    files = {}
    for suffix, metadata in (("svg", {"Date": None, "Creator": "tcpassay"}), ("png", {"Software": None})):
        out = BytesIO()
        drawn.savefig(out, format=suffix, dpi=PNG_DPI, metadata=metadata, facecolor="white")
        files[suffix] = out.getvalue()
    return files


def note(axes: Axes, text: str) -> None:
    """A remark in the upper right corner of the axes."""
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


def heading(axes: Axes, label: str, remark: str) -> None:
    """What the axes show, and a smaller line of remark below it."""
    axes.set_title(label, pad=14 if label else None)
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
