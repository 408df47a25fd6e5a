"""tcpassay tests TCP implementations in a wide range of environments.

This package is the control plane: it reads plans, runs their cases on the data plane (`tcpassay._native`) and shows the
results. The command `tcpassay` is implemented in `tcpassay.cli`.
"""

# The command imports this package before it can handle an interrupt (`__main__`). Therefore hardly anything is
# imported here, not even `typing`, whose constant `TYPE_CHECKING` is defined here for type checkers.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike

    from tcpassay._native import __version__
    from tcpassay.results import Results

__all__ = ["__version__", "load"]


def __getattr__(name: str) -> str:
    """Returns the version, which is read from the native module when it is needed."""
    if name == "__version__":
        from tcpassay._native import __version__  # noqa: PLC0415 - start-up time

        return __version__
    raise AttributeError(f"module `{__name__}` has no attribute `{name}`")


def load(folder: "str | PathLike[str]") -> "Results":
    """Reads the results in `folder` as polars frames; see `tcpassay.results`.

    Raises `tcpassay.errors.UserError` if the folder contains no results. Damaged files are listed in
    `Results.problems`.
    """
    from tcpassay import results  # noqa: PLC0415 - polars is most of the start-up time

    return results.load(folder)
