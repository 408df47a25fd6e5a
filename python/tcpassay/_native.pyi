"""The data plane: conversions to and from `crates/`, and no logic. Compared with the module by a test."""

from typing import Any, Final

__version__: Final[str]

class TomlError(ValueError):
    """Text that is not TOML: `args` are (message, line, column)."""

def read_toml(text: str) -> tuple[dict[str, Any], dict[tuple[str | int, ...], tuple[int, int]]]:
    """The document, and the place (line, column), from 1, of every key and element by its path."""
