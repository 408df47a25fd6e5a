"""Patch files: which files they change, and their application with GNU patch.

A patch is read as `git format-patch`, `git diff`, `quilt` and `diff -ru` write it: the first component of each path is
removed (`a/net/ipv4/tcp.c`). One file may contain several patches, as a mailbox does.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from tcpassay.errors import Place, UserError
from tcpassay.kernel.source import last_line, read_by_a_build, run

ORDER: Final = "series"
"""The file of a folder that lists its patches in their order, as `quilt` writes it."""

_HUNK: Final = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_FAILED: Final = re.compile(r"^Hunk #(\d+) FAILED at (\d+)", re.MULTILINE)
_SHOWN: Final = 14
"""Maximum number of lines of a hunk in a message."""


@dataclass(slots=True)
class Section:
    """The part of a patch about one file."""

    old: str | None = None
    """The file before; `None` if the patch creates it."""
    new: str | None = None
    """The file afterwards; `None` if the patch deletes it."""
    lines: list[str] = field(default_factory=list)
    hunks: list[tuple[int, int]] = field(default_factory=list)
    """For each hunk the index in `lines` of its first line, and the line in the patch file from 1."""
    binary: bool = False

    @property
    def names(self) -> list[str]:
        """The file before and afterwards, once if they are the same."""
        return list(dict.fromkeys(name for name in (self.old, self.new) if name is not None))


@dataclass(frozen=True, slots=True)
class Patch:
    """One patch file."""

    name: str
    text: str
    file: Path | None = None
    """The file of the user; `None` for a patch of this package."""

    @property
    def sections(self) -> list[Section]:
        """The parts about files that a build reads; documentation and self-tests are omitted."""
        return [
            section
            for section in _sections(self.text)
            if any(read_by_a_build(name) for name in section.names)
        ]

    @property
    def touches(self) -> list[str]:
        """Paths of the files that the patch changes, creates, deletes or renames."""
        return list(dict.fromkeys(name for section in self.sections for name in section.names))


def read(files: list[Path]) -> list[Patch]:
    """The user's patches in order; a folder means the patches of its `series` file, or its `*.patch` files.

    Raises `UserError` for a file that cannot be read or contains no change.
    """
    return [_read(file) for given in files for file in _expanded(given)]


class Named(Protocol):
    """What a user adds to a source."""

    @property
    def name(self) -> str:
        """Its name."""


def kernel_name(source: str, changes: Sequence[Named]) -> str:
    """The default name of a source with patches and modules: `6.1+first`, with the number of the others."""
    said = [source]
    if changes:
        said.append("".join(c if c.isalnum() or c in "._-" else "-" for c in changes[0].name))
    if len(changes) > 1:
        said.append(str(len(changes) - 1))
    return "+".join(said)[:64]


def apply(patch: Patch, scratch: Path, *, fuzz: int = 0) -> None:
    """Applies a patch to the files in `scratch`. Raises `UserError` with the file and the hunk that does not apply.

    As with `git apply`, lines may have moved, but all lines around a change must be equal; `fuzz` is the number of
    outer lines of context that may differ. After an error the files in `scratch` may be changed in part.
    """
    sections = patch.sections
    for section in sections:
        if section.binary:
            raise UserError(
                f"patch `{patch.name}` changes the binary file `{section.names[0]}`, which is not supported",
                _place(patch),
            )
    given = scratch / ".patch"
    # Surrogates are the bytes of a file in another encoding than UTF-8.
    text = "".join(line for section in sections for line in section.lines)
    given.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
    _all_there(patch, sections, scratch)
    command = [
        "patch",
        "-p1",
        "-f",
        "-r",
        "-",
        "--no-backup-if-mismatch",
        f"-F{fuzz}",
        "-d",
        str(scratch),
    ]
    tried = run([*command, "-i", str(given)])
    if tried.returncode != 0:
        back = run([*command, "-R", "--dry-run", "-i", str(given)])
        none = len(_FAILED.findall(tried.stdout)) == sum(len(section.hunks) for section in sections)
        if none and back.returncode == 0:
            message = f"patch `{patch.name}` does not apply: `{sections[0].names[-1]}` already contains it"
            raise UserError(message, _place(patch))
        raise _refused(patch, sections, tried.stdout, tried.stderr)
    given.unlink()


def _expanded(given: Path) -> list[Path]:
    if not given.is_dir():
        return [given]
    order = given / ORDER
    if order.is_file():
        said = (line.split("#")[0].split() for line in order.read_text(encoding="utf-8").splitlines())
        found = [given / words[0] for words in said if words]
    else:
        found = sorted(given.glob("*.patch"))
    if not found:
        raise UserError("this folder has no patches: neither `*.patch` nor a file `series`", Place(given))
    return found


def _read(file: Path) -> Patch:
    try:
        text = file.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UserError(
            f"the patch cannot be read: {(error.strerror or 'error').lower()}", Place(file)
        ) from None
    found = _sections(text)
    if not found:
        raise UserError("it contains no change: a patch is what `diff -u` or `git diff` writes", Place(file))
    for name in (name for section in found for name in section.names):
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise UserError(f"it changes `{name}`, which is not inside the tree", Place(file))
    patch = Patch(file.stem, text, file)
    if not patch.sections:
        raise UserError("it changes only files that a build does not read", Place(file))
    return patch


def _sections(text: str) -> list[Section]:
    """The parts of a patch; text between them (the message of a commit, a signature) is omitted."""
    found: list[Section] = []
    lines = text.splitlines(keepends=True)
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith("diff --git "):
            found.append(Section(*_named_by_git(line), [line]))
        elif line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ "):
            if not found or found[-1].hunks or not found[-1].lines[0].startswith("diff --git "):
                found.append(Section())
            section = found[-1]
            section.old, section.new = _name(line), _name(lines[at + 1])
            section.lines += [line, lines[at + 1]]
            at += 1
        elif found and (hunk := _HUNK.match(line)):
            end = _end(lines, at + 1, *(1 if count is None else int(count) for count in hunk.groups()))
            found[-1].hunks.append((len(found[-1].lines), at + 1))
            found[-1].lines += lines[at:end]
            at = end - 1
        elif found and not found[-1].hunks and _extended(line):
            found[-1].lines.append(line)
            found[-1].binary |= line.startswith(("GIT binary patch", "Binary files "))
            _renamed(found[-1], line)
        at += 1
    return [section for section in found if section.names]


def _extended(line: str) -> bool:
    """Whether it is a line of git's header of a file."""
    return line.startswith((
        "old mode ", "new mode ", "deleted file mode ", "new file mode ", "copy from ", "copy to ", "rename from ",
        "rename to ", "similarity index ", "dissimilarity index ", "index ", "GIT binary patch", "Binary files ",
    ))  # fmt: skip


def _renamed(section: Section, line: str) -> None:
    """Takes the names of files from a line of git's header, for patches without hunks."""
    word, _, name = line.rstrip("\r\n").partition(" ")
    if word in {"rename", "copy"}:
        direction, _, name = name.partition(" ")
        if direction == "from":
            section.old = name
        else:
            section.new = name
    elif line.startswith("new file "):
        section.old = None
    elif line.startswith("deleted file "):
        section.new = None


def _named_by_git(line: str) -> tuple[str | None, str | None]:
    """The names in `diff --git a/x b/x`; a name with spaces is found by the equality of both halves."""
    said = line.rstrip("\r\n").removeprefix("diff --git ")
    middle = len(said) // 2
    halves = (said[:middle], said[middle + 1 :]) if said[middle : middle + 1] == " " else ("", "")
    if halves[0].partition("/")[2] != halves[1].partition("/")[2]:
        left, _, right = said.partition(" ")
        halves = (left, right)
    return _stripped(halves[0]), _stripped(halves[1])


def _name(line: str) -> str | None:
    """The name in a line `--- a/x` or `+++ b/x`; a tab begins the time."""
    return _stripped(line[4:].rstrip("\r\n").partition("\t")[0])


def _stripped(path: str) -> str | None:
    return None if path == "/dev/null" else path.partition("/")[2] or None


def _end(lines: list[str], at: int, old: int, new: int) -> int:
    """The index after a hunk that begins at `at` with these numbers of lines of the old and of the new file."""
    while at < len(lines) and (old > 0 or new > 0):
        kind = lines[at][:1]
        if kind not in {" ", "-", "+", "\\", "\n", "\r"}:
            break
        old -= kind not in {"+", "\\"}
        new -= kind not in {"-", "\\"}
        at += 1
    if at < len(lines) and lines[at].startswith("\\"):
        at += 1
    return at


def _all_there(patch: Patch, sections: list[Section], scratch: Path) -> None:
    """Raises `UserError` if a file is not in the tree; files that earlier parts of the patch make count."""
    made: set[str] = set()
    for section in sections:
        if section.old is not None and section.old not in made and not (scratch / section.old).is_file():
            raise UserError(
                f"patch `{patch.name}` does not apply: `{section.old}` is not in this tree "
                "(one leading component of each path is removed, as in `a/net/ipv4/tcp.c`)",
                _place(patch, section.hunks[0][1] if section.hunks else 0),
            )
        made.update(section.names)


def _refused(patch: Patch, sections: list[Section], out: str, err: str) -> UserError:
    """The error for the output of GNU patch: the first hunk that does not apply."""
    parts = re.split(r"^patching file .*$", out, flags=re.MULTILINE)[1:]
    for section, said in zip(sections, parts, strict=False):
        failed = _FAILED.search(said)
        if failed and int(failed[1]) <= len(section.hunks):
            number = int(failed[1])
            start, line = section.hunks[number - 1]
            end = section.hunks[number][0] if number < len(section.hunks) else len(section.lines)
            shown = [text.rstrip() for text in section.lines[start:end][:_SHOWN]]
            more = ["..."] if end - start > _SHOWN else []
            message = (
                f"patch `{patch.name}` does not apply: `{section.names[-1]}`, hunk {number} of {len(section.hunks)}, "
                f"expected at line {failed[2]}\n"
            )
            return UserError(
                message + "\n".join(f"    {one}" for one in [*shown, *more]), _place(patch, line)
            )
    return UserError(f"patch `{patch.name}` does not apply: {last_line(err or out)}", _place(patch))


def _place(patch: Patch, line: int = 0) -> Place | None:
    return None if patch.file is None else Place(patch.file, line)
