"""What a plan or a result folder names that is executed, or that is outside of it. Nothing of it is executed here.

Another kind of code, such as the command of a stack that is a program, is one more row of `_KINDS`.
"""

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tcpassay import regular
from tcpassay.errors import UserError
from tcpassay.plan.expand import factors
from tcpassay.plan.model import PlanFile
from tcpassay.run import inputs
from tcpassay.run.journal import Journal
from tcpassay.trust import consent

_LARGEST: Final = 64 << 20
"""Maximum size of a code file, as in the data plane."""


@dataclass(frozen=True, slots=True)
class Needed:
    """A file that a plan or folder names."""

    words: str
    """What it is."""
    name: str
    """As in the value."""
    file: Path
    sha256: str | None
    """`None` if it cannot be read, so that it cannot be executed either."""


@dataclass(slots=True)
class Needs:
    """What a plan or folder would execute, and what it needs of this machine."""

    code: list[Needed] = field(default_factory=list)
    outside: list[Needed] = field(default_factory=list)
    """Files that are read, but are not in the folder."""
    substrates: list[str] = field(default_factory=list)

    @property
    def files(self) -> list[Needed]:
        """All files that need the user's consent."""
        return [*self.code, *self.outside]

    def named(self, kind: str) -> list[str]:
        """The testbeds (`remote`) or kernels (`kernel`) that are named."""
        split = (name.partition(":") for name in self.substrates)
        return [which for one, _, which in split if one == kind and which]


def controller(value: str) -> tuple[str, str] | None:
    """File and class of `python:FILE:CLASS` or `python:FILE:CLASS@CHECKSUM`; `None` for another value."""
    kind, _, rest = value.partition(":")
    file, _, name = rest.rpartition(":")
    return (file, name.partition("@")[0]) if kind == "python" else None


def _controller(value: str) -> str | None:
    named = controller(value)
    return None if named is None else named[0]


def _object(value: str) -> str | None:
    return value if value.endswith(".o") else None


@dataclass(frozen=True, slots=True)
class _Kind:
    parameter: str
    words: str
    file: Callable[[str], str | None]
    """The file that a value names; `None` for a value that names none."""
    runs: bool = False
    """Whether a value names a command instead of a file."""


_KINDS: Final = (
    _Kind("stack.cc", "a controller in Python", _controller),
    _Kind("stack.cc_engine", "a controller as BPF object file", _object),
    _Kind("stack.implementation", "the command of a TCP", consent.command, runs=True),
)
_PARAMETERS: Final = {kind.parameter: kind for kind in _KINDS}


def of_plan(spec: PlanFile, base: Path) -> Needs:
    """What the cases of a plan can name; `base` is the folder of its file."""
    made = _Maker(base, None)
    made.take(spec.fixed)
    made.take(spec.negative)
    for settings in spec.case:
        made.take(settings)
    for among in factors(spec).values():
        for level in among:
            made.take(level.triples)
    made.needs.substrates = list(spec.substrates)
    made.stacks()
    return made.needs


def of_folder(folder: Path) -> Needs:
    """What the runs of a folder name, its plan, its journal, and the causes that were isolated in it."""
    from tcpassay.results import Results  # noqa: PLC0415 - polars is a fifth of the time of `tcpassay plan`

    results = Results(folder)
    made = _Maker(inputs.base_of(folder), folder / inputs.FOLDER)
    substrates = dict.fromkeys(str(run.get("substrate", "model")) for run in results.runs)
    for run in results.runs:
        made.take(run.get("triples") or {})
        script = run.get("script")
        if isinstance(script, dict):
            made.data(str(script.get("file", "")))
    for content in _documents(folder):
        for settings in _settings(content):
            made.take(settings)
    made.needs.substrates = [name for name in substrates if isinstance(name, str)]
    made.stacks()
    return made.needs


def _documents(folder: Path) -> Iterator[object]:
    """The contents of the other files of a folder from which runs are made."""
    for file in (folder / "plan.toml", *sorted((folder / "isolate").glob("*.json"))):
        with suppress(OSError, ValueError, RecursionError):
            text = regular.read_bytes(file, links=False).decode()
            yield tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    with suppress(UserError), Journal.peek(folder) as journal:
        for name, text in journal.notes.items():
            with suppress(ValueError, RecursionError):
                yield tomllib.loads(text) if name == "plan" else json.loads(text)


def _settings(content: object) -> Iterator[Mapping[str, object]]:
    """All tables in a document; a row with `path` and `value` is a setting, too."""
    waiting = [content]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
            if isinstance(path := one.get("path"), str):
                yield {path: one.get("value")}
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


class _Maker:
    def __init__(self, base: Path, inside: Path | None) -> None:
        self.needs = Needs()
        self._base = base
        self._inside = None if inside is None else os.path.realpath(inside)
        self._met: set[tuple[str, str]] = set()

    def take(self, settings: Mapping[str, object]) -> None:
        """Notes the files that these settings name."""
        for path, value in settings.items():
            kind = _PARAMETERS.get(path.rpartition("/")[2])
            for text in _texts(value):
                if kind is not None and (name := kind.file(text)) is not None:
                    if kind.runs:
                        self._command(kind.words, name)
                        continue
                    self._add(self.needs.code, kind.words, name)
                elif name := inputs.named_in(text):
                    self.data(name)

    def stacks(self) -> None:
        """Notes the commands that substrates name (`model:exec:COMMAND`)."""
        for name in self.needs.substrates:
            kind, _, stack = name.partition(":")
            if kind == "model":
                self.take({"stack.implementation": stack})

    def data(self, name: str) -> None:
        """Notes a file that is read; one in the folder, or that is none, is not noted."""
        if (file := self._file(name)) is None:
            return
        at_home = self._inside is None and not Path(name).is_absolute()
        if not at_home and not (self._inside and os.path.realpath(file).startswith(self._inside + os.sep)):
            self._add(self.needs.outside, "a file that is not in the folder", name)

    def _file(self, name: str) -> Path | None:
        file = self._base / name
        with suppress(OSError, ValueError):
            return file if file.is_file() else None
        return None

    def _command(self, words: str, name: str) -> None:
        if (words, name) not in self._met:
            self._met.add((words, name))
            program = next(iter(name.split()), "")
            sha256 = consent.digest(consent.command_code(name))
            self.needs.code.append(
                Needed(f"{words} (`{name}`)", name, Path(shutil.which(program) or program), sha256)
            )

    def _add(self, into: list[Needed], words: str, name: str) -> None:
        if (words, name) in self._met:
            return
        self._met.add((words, name))
        sha256 = None
        with suppress(OSError, ValueError):
            sha256 = consent.digest(regular.read_bytes(self._base / name, largest=_LARGEST))
        into.append(Needed(words, name, Path(os.path.normpath(self._base / name)), sha256))


def _texts(value: object) -> Iterable[str]:
    """A text, or those of a list or of the values of an axis."""
    if isinstance(value, str):
        return (value,)
    among = value if isinstance(value, list) else value.get("values") if isinstance(value, dict) else None
    return [one for one in among if isinstance(one, str)] if isinstance(among, list) else ()
