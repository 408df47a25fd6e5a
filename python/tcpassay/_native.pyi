"""The data plane: conversions to and from `crates/`, and no logic. Compared with the module by a test."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

__version__: Final[str]

class TomlError(ValueError):
    """Text that is not TOML: `args` are (message, line, column)."""

class CaseError(Exception):
    """A case that cannot be run: `args[0]` lists (path, other path or None, value or None, what is wrong)."""

class PanicException(BaseException):
    """A bug in the data plane."""

def read_toml(text: str) -> tuple[dict[str, Any], dict[tuple[str | int, ...], tuple[int, int]]]:
    """The document, and the place (line, column), from 1, of every key and element by its path."""

def params_json() -> str:
    """The parameter table, a JSON list."""

def metrics_json() -> str:
    """The metrics, a JSON list."""

def check_case(triples: Mapping[str, bool | float | str], base: str) -> dict[str, str]:
    """Checks a case; files that values name are relative to `base`. What is not at its default, as text."""

def run_case(
    triples: Mapping[str, bool | float | str],
    seed: int,
    base: str,
    collect: Mapping[str, str | bool | None],
    folder: str,
) -> str:
    """Runs a case, writes its recording to `folder` (whole or not at all), and returns a JSON object.

    It holds `ended` (`duration`, `finished`, `event limit`), `events`, `hops`, `trace` (equal for runs that took
    the same steps) and `metrics`.
    """

def run_script(text: str, profile: str, loose: bool, options: Sequence[Sequence[str]]) -> str:
    """Runs a packetdrill script against the model and returns a JSON object.

    `options` are those of packetdrill's command line, (name, value) without dashes. The object holds `status`
    (`pass`, `time`, `fail`, `unsupported`, `syntax`), `line`, `column`, `reason`, `details`, `drift_usecs`,
    `virtual_time_usecs`, `events` and `printed`.
    """
