"""What the user got wrong, and where.

A bug of ours is a traceback. Everything else is a `UserError`: one message with the value, what is allowed
and the place, and exit code 2.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which file; `line` counts from 1 and is 0 when the file as a whole is meant."""

    file: Path
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else str(self.file)


class UserError(Exception):
    """Something that the user can put right."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message
