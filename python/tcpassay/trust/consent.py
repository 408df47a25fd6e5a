"""What this process may execute of plans and result folders.

Nothing is allowed before a command allows it. The bytes of a code file are checked where they are executed, so that
neither a checksum in a folder nor a file that is replaced meanwhile has an effect. Requests to workers carry what is
allowed. The module imports little, because workers start with it.
"""

import hashlib
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

STACK: Final = "stack.implementation"
"""The parameter whose value may be a command."""


@dataclass(frozen=True, slots=True)
class Consent:
    """What may be executed."""

    code: frozenset[str] = frozenset()
    """SHA-256 digests of code files."""
    testbeds: tuple[tuple[str, str], ...] = ()
    """Names of testbeds with the files that the command line gives for them; an empty name stands for all others."""
    connects: bool = False
    """Whether hosts of testbeds may be connected; otherwise cases are only compared with the tables."""


class ConsentError(PermissionError):
    """Code that the user has not accepted."""


_current = Consent()


def current() -> Consent:
    """What this process may execute."""
    return _current


def use(consent: Consent) -> None:
    """Replaces what this process may execute."""
    global _current  # noqa: PLW0603 - a property of the process
    _current = consent


def digest(content: bytes) -> str:
    """The SHA-256 digest of a code file."""
    return hashlib.sha256(content).hexdigest()


def command(value: str) -> str | None:
    """The command of `exec:COMMAND`; `None` for another value."""
    kind, colon, rest = value.partition(":")
    return rest.strip() if kind == "exec" and colon else None


def command_files(command: str) -> dict[int, Path]:
    """The files that the words of a command name, by the position of the word: its program first."""
    found = {}
    for place, word in enumerate(command.split()):
        with suppress(OSError, ValueError):
            file = Path((shutil.which(word) if place == 0 else word) or word)
            if file.is_file():
                found[place] = file
    return found


def file_digest(file: Path) -> str:
    """The SHA-256 digest of a file. Raises `OSError`."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def command_code(command: str, files: Mapping[int, Path] | None = None) -> bytes:
    """What the consent to a command covers: its words, its program, and the contents of the files that it names.

    `files` are copies of them.
    """
    found = command_files(command) if files is None else files
    return "\n".join([command, *(file_digest(found[place]) for place in sorted(found))]).encode()


def command_digests(cases: Iterable[Mapping[str, object]]) -> dict[str, str]:
    """The digest of each command of `exec:` that the settings of cases name."""
    values = (str(value) for triples in cases for path, value in triples.items() if path.endswith(STACK))
    named = dict.fromkeys(found for value in values if (found := command(value)) is not None)
    return {name: digest(command_code(name)) for name in named}


def grant(digests: Iterable[str]) -> None:
    """Also allows code files with these digests."""
    use(replace(_current, code=_current.code | frozenset(digests)))


def grant_source(source: str) -> None:
    """Also allows a controller whose text the caller has at hand."""
    grant([digest(source.encode())])


def connect() -> None:
    """Allows connections to the hosts of testbeds."""
    use(replace(_current, connects=True))


def give_testbeds(files: Iterable[tuple[str, Path]]) -> None:
    """Names files of testbeds, which take precedence over those in the user's settings."""
    use(replace(_current, testbeds=tuple((name, str(file.resolve())) for name, file in files)))


def require(content: bytes, file: str) -> None:
    """Raises `ConsentError` unless code with this content may be executed."""
    found = digest(content)
    if found not in _current.code:
        raise ConsentError(
            f"{file}: this code was not accepted (SHA-256 {found}); `--allow-code` accepts it (docs/strangers.md)"
        )
