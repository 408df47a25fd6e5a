"""Progress of long work: a status line on a terminal, elsewhere (the log of a CI) a line from time to time."""

import time
from collections.abc import Callable
from typing import Final, Self

from rich.console import Console
from rich.markup import escape

EVERY: Final = 30.0
"""Seconds between two lines without a terminal."""


class Pace:
    """Prints lines at most every half minute, and only without a terminal."""

    def __init__(self, console: Console, now: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._now = now
        self._last = now()

    def say(self, text: Callable[[], str]) -> None:
        """Prints a line, if it is time for one."""
        if self._console.is_terminal or self._now() - self._last < EVERY:
            return
        self._last = self._now()
        self._console.print(escape(text()), highlight=False, soft_wrap=True)


class Working:
    """What a command works on: `with Working(console, "Isolating") as working: working.update("4 of 9")`."""

    def __init__(self, console: Console, what: str) -> None:
        self._what = what
        self._status = console.status(what) if console.is_terminal else None
        self._pace = Pace(console)

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def update(self, text: str) -> None:
        """Says how far the work is."""
        if self._status is not None:
            self._status.update(text)
        else:
            self._pace.say(lambda: f"{self._what}: {text}")
