"""tcpassay puts a TCP to the test in every environment that matters.

This package is the control plane: it reads plans, runs their cases on the data plane (`tcpassay._native`) and
shows what came of them. The command is `tcpassay`; its entry is `tcpassay.cli`.
"""

from os import PathLike
from typing import TYPE_CHECKING

from tcpassay._native import __version__

if TYPE_CHECKING:
    from tcpassay.results import Results

__all__ = ["__version__", "load"]


def load(folder: str | PathLike[str]) -> "Results":
    """The results in `folder`, as polars frames; `tcpassay.results` describes them.

    Raises `tcpassay.errors.UserError` when it holds none; damaged files are listed in `Results.problems`.
    """
    from tcpassay import results  # noqa: PLC0415 - polars is most of the start-up time

    return results.load(folder)
