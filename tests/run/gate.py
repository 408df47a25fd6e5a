"""Controls the gates before and after each run that gated.py installs."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from patience import parent

SCRIPT: Final = Path(__file__).with_name("gated.py")


class Gate:
    """At first no run may begin, and no answer is held."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.let_in([])
        self.hold([])

    def let_in(self, numbers: Iterable[int]) -> None:
        """These runs may begin, by their numbers in the order of the plan; no others."""
        self._say("let-in", numbers)

    def hold(self, numbers: Iterable[int]) -> None:
        """These runs may be made, recording and all, but not answer; all others may."""
        self._say("held", numbers)

    def _say(self, name: str, numbers: Iterable[int]) -> None:
        made = self.folder / f".{name}"
        made.write_text(json.dumps(sorted(numbers)), encoding="ascii")
        made.rename(self.folder / name)

    def before(self, command: int) -> dict[int, int]:
        """The workers of this command that wait to be let in, by the number of the run that each has."""
        return self._waiting("let-in", command)

    def held(self, command: int) -> dict[int, int]:
        """Those that are held."""
        return self._waiting("held", command)

    def _waiting(self, name: str, command: int) -> dict[int, int]:
        found = {}
        for path in self.folder.glob(f"{name}-*"):
            number, pid = path.name.removeprefix(f"{name}-").split("-")
            if parent(pid) == command:
                found[int(number)] = int(pid)
        return found
