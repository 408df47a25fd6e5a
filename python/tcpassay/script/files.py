"""Files of packetdrill scripts: arguments, folders, the profile of a first line, shell scripts that a script calls."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tcpassay import regular
from tcpassay.errors import Place, Problem, UserError

LONGEST: Final = 4 << 20
"""Bytes of a script; the runner refuses longer ones."""
LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a script whose first line is read; a larger file is no script."""
REAL: Final = "linux"
"""The profile of today's Linux, so of what runs in a guest or on a host."""
_SAID: Final = re.compile(r"\s*//\s*profile:\s*(\S+)\s*$")
_SHELL_FILE: Final = 1 << 16
"""Bytes of a shell script that a script calls."""
_COMMANDS: Final = re.compile(r"`([^`]*)`")
_CALLED: Final = re.compile(r"(?:^|[\s;&|])([\w.][\w./-]*\.sh)(?=[\s;&|]|$)")

# Options of the original that take no value; every other one does.
FLAGS: Final = frozenset(
    (
        "strict_segments",
        "verbose",
        "debug",
        "dry_run",
        "no_cleanup",
        "is_anyip",
        "send_omit_free",
        "use_expect",
        "allow-shell",
    )
)


def arguments(words: Sequence[str]) -> tuple[list[Path], list[tuple[str, str]]]:
    """Files and folders, and the options of packetdrill among them: `--name=value`, `--name value`, `-D name=value`."""
    files: list[Path] = []
    options: list[tuple[str, str]] = []
    rest = iter(words)
    for word in rest:
        if word == "-D":
            options.append(("define", _value(word, rest)))
        elif word.startswith("-D"):
            options.append(("define", word.removeprefix("-D")))
        elif word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            options.append((name, value if equals or name in FLAGS else _value(word, rest)))
        elif word.startswith("-"):
            raise UserError(f"`{word}` is not an option; see `tcpassay script --help`")
        else:
            files.append(Path(word))
    return files, options


def _value(option: str, rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None:
        raise UserError(f"`{option}` needs a value")
    return value


def find(paths: Iterable[Path]) -> list[Path]:
    """The scripts: files as given, and the `*.pkt` files of folders."""
    found: list[Path] = []
    problems = []
    for path in paths:
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*.pkt") if each.is_file())
            if not inside:
                problems.append(Problem("no *.pkt file in this folder", Place(path)))
            found += inside
        elif path.is_file():
            found.append(path)
        elif path.exists():
            problems.append(Problem("neither a file nor a folder", Place(path)))
        else:
            problems.append(Problem("no such file or folder", Place(path)))
    if problems:
        raise UserError.several(problems)
    return found


def profile_of(file: Path) -> str:
    """The profile that the first line of a script names; `linux` when it names none. Raises `UserError`."""
    try:
        said = _SAID.match(
            regular.read_bytes(file, largest=LARGEST).partition(b"\n")[0].decode(errors="replace")
        )
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", Place(file)) from error
    return said[1] if said else REAL


def shell_files(text: str, file: Path) -> dict[str, Path]:
    """The shell scripts beside `file` that its commands call, by the relative name that they call them by."""
    called = {name for command in _COMMANDS.findall(text) for name in _CALLED.findall(command)}
    found = {name: file.parent / name for name in sorted(called)}
    return {name: path for name, path in found.items() if path.is_file()}


def shell_options(text: str, file: Path) -> Iterator[tuple[str, str]]:
    """The shell scripts that a script calls, as options of the runner; those of more than 64 KiB are left out."""
    for name, path in shell_files(text, file).items():
        with contextlib.suppress(OSError), path.open("rb") as opened:
            body = opened.read(_SHELL_FILE + 1)
            if len(body) <= _SHELL_FILE:
                yield "shell-file", f"{name}\n{body.decode('utf-8', errors='replace')}"


def read(file: Path) -> str:
    """The text of a script, cut after one byte more than the runner accepts. Raises `UserError`."""
    try:
        regular.check(file.stat().st_mode)  # a pipe might never end, or never begin
        with file.open("rb") as opened:
            return opened.read(LONGEST + 1).decode("utf-8", errors="replace")
    except OSError as error:
        raise UserError(
            f"cannot be read: {(error.strerror or type(error).__name__).lower()}", Place(file)
        ) from error
