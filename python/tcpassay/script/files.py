"""Files of packetdrill scripts.

Arguments, folders, the profile in the first line, shell scripts that a script calls.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tcpassay import regular
from tcpassay.errors import Place, Problem, UserError

LONGEST: Final = 4 << 20
"""Maximum size of a script in bytes, as in the runner."""
LARGEST: Final = 16 * 1024 * 1024
"""Maximum size of a file whose first line is read; a larger file is not a script."""
REAL: Final = "linux"
"""The profile of current Linux, which is that of guests and hosts."""
_SAID: Final = re.compile(r"\s*//\s*profile:\s*(\S+)\s*$")
_SHELL_FILE: Final = 1 << 16
"""Maximum size of a shell script that a script calls."""
_COMMANDS: Final = re.compile(r"`([^`]*)`")
_CALLED: Final = re.compile(r"(?:^|[\s;&|])([\w.][\w./-]*\.sh)(?=[\s;&|]|$)")

PLACES: Final = ("model", "kernel", "host")
"""Where scripts run, beside other TCPs than the model."""
ALLOW_SHELL: Final = "allow-shell"
"""The option that lets the shell execute commands of a script."""
# Options of packetdrill without a value; all others have one.
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
        ALLOW_SHELL,
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
    """The profile in the first line of a script; `linux` if there is none. Raises `UserError`."""
    try:
        said = _SAID.match(
            regular.read_bytes(file, largest=LARGEST).partition(b"\n")[0].decode(errors="replace")
        )
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", Place(file)) from error
    return said[1] if said else REAL


def shell_files(text: str, file: Path) -> dict[str, Path]:
    """The shell scripts in the folder of `file` that its commands call, by relative name."""
    called = {name for command in _COMMANDS.findall(text) for name in _CALLED.findall(command)}
    found = {name: file.parent / name for name in sorted(called)}
    return {name: path for name, path in found.items() if path.is_file()}


def shell_options(text: str, file: Path) -> Iterator[tuple[str, str]]:
    """The shell scripts that a script calls, as options of the runner; those above 64 KiB are omitted."""
    for name, path in shell_files(text, file).items():
        with contextlib.suppress(OSError), path.open("rb") as opened:
            body = opened.read(_SHELL_FILE + 1)
            if len(body) <= _SHELL_FILE:
                yield "shell-file", f"{name}\n{body.decode('utf-8', errors='replace')}"


def read(file: Path) -> str:
    """The text of a script, truncated to one byte more than the runner accepts. Raises `UserError`."""
    try:
        regular.check(file.stat().st_mode)  # a pipe could block or never end
        with file.open("rb") as opened:
            return opened.read(LONGEST + 1).decode("utf-8", errors="replace")
    except OSError as error:
        raise UserError(
            f"cannot be read: {(error.strerror or type(error).__name__).lower()}", Place(file)
        ) from error
