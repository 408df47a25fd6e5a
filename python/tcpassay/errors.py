"""What the user got wrong, and where.

A bug of ours is a traceback. Everything else is a `UserError`: for each problem one line with the value, what is
allowed and the place, and exit code 2.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which file; `line` counts from 1, and is 0 when the file as a whole is meant."""

    file: Path
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else str(self.file)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: the value and what is allowed instead, and where it stands."""

    message: str
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class UserError(Exception):
    """Something, or several things, that the user can put right."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message, place)
        self.problems: tuple[Problem, ...] = (Problem(message, place),)

    @classmethod
    def several(cls, problems: Iterable[Problem]) -> "UserError":
        """All that was found at once; there must be something."""
        found = tuple(problems)
        error = cls(found[0].message, found[0].place)
        error.problems = found
        return error

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))
