"""Whether the programs whose runs are compared stay the same while they are compared."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tcpassay.trust import consent


class Unchanged:
    """Commands of `exec:` and other files as they were at the beginning."""

    def __init__(self, commands: Iterable[str], files: Mapping[Path, str]) -> None:
        """`files` are further files, each with what it is in words."""
        self._commands = {name: consent.digest(consent.command_code(name)) for name in commands}
        self._files = {file: (_digest(file), words) for file, words in files.items()}
        self._stamps = self._stamped()

    def changed(self) -> str:
        """What has other content than at the beginning, in words; empty if nothing has."""
        stamps = self._stamped()
        if stamps == self._stamps:
            return ""
        for name, before in self._commands.items():
            if consent.digest(consent.command_code(name)) != before:
                return f"`{name}`"
        for file, (digest, words) in self._files.items():
            if _digest(file) != digest:
                return f"{words} ({file})"
        self._stamps = stamps
        return ""

    def _stamped(self) -> dict[Path, tuple[int, ...] | None]:
        of_commands = (file for name in self._commands for file in consent.command_files(name).values())
        return {file: _stamp(file) for file in (*of_commands, *self._files)}


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        said = file.stat()
    except OSError:
        return None
    return said.st_mtime_ns, said.st_size, said.st_ino


def _digest(file: Path) -> str:
    try:
        return consent.file_digest(file)
    except OSError:
        return ""
