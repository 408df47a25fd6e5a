"""tcpassay puts a TCP to the test in every environment that matters.

This package is the control plane: it reads plans, runs their cases on the data plane (`tcpassay._native`) and
shows what came of them. The command is `tcpassay`; its entry is `tcpassay.cli`.
"""

# The command imports this package before it can deal with an interrupt (`__main__`), so that next to nothing is
# imported here: not even `typing`, whose constant this is to type checkers.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike

    from tcpassay._native import __version__
    from tcpassay.results import Results

__all__ = ["__version__", "load"]


def __getattr__(name: str) -> str:
    """The version, which the native module knows, when somebody asks for it."""
    if name == "__version__":
        from tcpassay._native import __version__  # noqa: PLC0415 - start-up time

        return __version__
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")


def load(folder: "str | PathLike[str]") -> "Results":
    """The results in `folder`, as polars frames; `tcpassay.results` describes them.

    Raises `tcpassay.errors.UserError` when it holds none; damaged files are listed in `Results.problems`.
    """
    from tcpassay import results  # noqa: PLC0415 - polars is most of the start-up time

    return results.load(folder)
