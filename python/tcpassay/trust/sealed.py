"""Copies of code files from which they are executed, so that the bytes that the consent covers are those that run.

Another process can replace or change a file after its digest was computed. A copy is therefore made first, its digest
is compared with what the user has accepted, and then it is the copy that is read or started.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tcpassay import regular, scratch
from tcpassay.messages import Triples
from tcpassay.trust import consent

OBJECTS: Final = "stack.cc_engine"
_LARGEST: Final = 16 << 20
"""Maximum size of an object file."""
_MOST_BESIDE: Final = 1000
"""Maximum number of files beside a program to which its copy has links."""
_SEALS: Final = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL


@contextlib.contextmanager
def commands(triples: Triples) -> Iterator[dict[str, dict[int, Path]]]:
    """The commands of `exec:` that a case starts, each with the copies that are used instead of its words.

    A program that the search path finds has no copy: who can change it can change every program of this user. The
    copies are removed at the end. Raises `ConsentError` for a command that is not accepted, `OSError` for a file that
    cannot be copied.
    """
    values = [str(value) for path, value in triples.items() if path.endswith(consent.STACK)]
    named = dict.fromkeys(command for value in values if (command := consent.command(value)) is not None)
    if not named:
        yield {}
        return
    with scratch.folder() as place:
        made = {}
        for number, command in enumerate(named):
            files = consent.command_files(command)
            words = command.split()
            copies = {
                at: _copied(file, place / f"{number}-{at}")
                for at, file in files.items()
                if at > 0 or os.sep in words[0]
            }
            consent.require(consent.command_code(command, files | copies), command)
            made[command] = copies
        yield made


def _copied(file: Path, folder: Path) -> Path:
    """A copy of a file in a new folder, with links to the files beside the original, which a program may load."""
    folder.mkdir()
    copy = folder / file.name
    shutil.copy(file, copy)
    with contextlib.suppress(OSError), os.scandir(file.parent) as beside:
        for entry, _ in zip(beside, range(_MOST_BESIDE), strict=False):
            if entry.name != file.name:
                (folder / entry.name).symlink_to(Path(entry.path).absolute())
    return copy


@contextlib.contextmanager
def objects(triples: Triples, base: Path) -> Iterator[dict[str, int]]:
    """Descriptors of sealed copies of the object files that a case names, by name; nobody can change their content.

    Raises `ConsentError` for an object file that is not accepted, `OSError` for one that cannot be read.
    """
    with contextlib.ExitStack() as opened:
        made: dict[str, int] = {}
        for path, value in triples.items():
            if path.rpartition("/")[2] != OBJECTS or not isinstance(value, str) or value in made:
                continue
            if value.endswith(".o"):
                content = regular.read_bytes(base / value, largest=_LARGEST)
                consent.require(content, value)
                handle = os.memfd_create("object", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
                opened.callback(os.close, handle)
                with os.fdopen(handle, "wb", closefd=False) as file:
                    file.write(content)
                fcntl.fcntl(handle, fcntl.F_ADD_SEALS, _SEALS)
                made[value] = handle
        yield made
