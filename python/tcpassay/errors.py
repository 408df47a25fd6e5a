"""Errors of the user, with their positions.

Internal errors are tracebacks with exit code 70 (`guard.py`). All other errors are a `UserError`: one line per problem
with the value, the allowed values and the position; the exit code is 2.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file; `line` counts from 1, and 0 means the whole file."""

    file: Path
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else str(self.file)


@dataclass(frozen=True, slots=True)
class Problem:
    """A single error: the value, the allowed values, and the position."""

    message: str
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class UserError(Exception):
    """One or several errors of the user."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message, place)
        self.problems: tuple[Problem, ...] = (Problem(message, place),)

    @classmethod
    def several(cls, problems: Iterable[Problem]) -> "UserError":
        """All errors found at once; there must be at least one."""
        found = tuple(problems)
        error = cls(found[0].message, found[0].place)
        error.problems = found
        return error

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))
