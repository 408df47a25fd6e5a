"""The patched copy of a kernel source, updated so that a build recompiles only changed files.

The original of each patched file is kept beside the copy. The patched file is written only if its content changes. The
user's patches are applied first, to the source that they were made for; the patches of this package follow.
"""

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.kernel import series
from tcpassay.kernel.modules import Module
from tcpassay.kernel.series import Patch
from tcpassay.kernel.source import Say, Source, Stat
from tcpassay.scratch import folder as scratch_folder

WHOLE: Final = ""
"""The name of the single pseudo file of a source that changes only as a whole."""

LOST: Final = {
    "0004-tcp-dctcp-selectable-receiver": "DCTCP's receivers `clear-timer` and `rearm` are refused",
    "0005-um-faults-of-sixteen-pages": "a run takes more CPU time",
    "0006-um-no-system-calls-at-a-switch": "a run takes more CPU time",
    "0007-um-memory-is-mapped-at-once": "a run takes more CPU time",
    "0008-net-sched-tbf-as-a-link": "queue disciplines are served by a token bucket, and red is refused",
    "0009-um-registers-of-any-host": "no case runs where the processor has AMX",
    "0001-um-memory-is-walked-with-its-lock": "lockdep may report each new process",
}
"""What is lost without an optional patch of this package. All others are required."""

CONTAINED: Final = {
    "0006-um-no-system-calls-at-a-switch": (
        "arch/x86/um/tls_64.c",
        "gp[FS_BASE / sizeof(unsigned long)] = tls",
    ),
    "0009-um-registers-of-any-host": (
        "arch/x86/um/shared/sysdep/ptrace.h",
        "extern unsigned long host_fp_size;",
    ),
}
"""The file and the text by which a source is recognized that does not need a patch, because it does the same itself."""

FAULTS: Final = {
    "0010-um-consecutive-pages-of-a-folio": ("arch/um/include/asm/pgtable.h", "(nr << PFN_PTE_SHIFT)"),
}
"""The file and the text of a fault that a patch corrects. A source without them does not need the patch."""

_REQUIRED: Final = {
    "0001-gcov-counters-on-the-host": "count what it executes",
    "0010-um-consecutive-pages-of-a-folio": "keep the memory of its processes intact",
}
"""The features of a kernel that depend on a required patch; without the other patches it has no virtual time."""

Change = Patch | Module
"""What a user adds to a source."""

# Context around the changes of this package differs between versions of Linux.
_FUZZ: Final = 2


@dataclass(frozen=True, slots=True)
class Copy:
    """The state of an updated copy."""

    tree: Path
    digest: str
    """The hash of the source's state and the patches."""
    patches: list[str]
    """Names of the applied patches."""
    contained: list[str]
    """Names of the patches that the source does not need."""


def patches() -> list[Patch]:
    """The patches of this package, in order, each followed by its forms for later series of Linux.

    The form `patches/6.12/0007-x.patch` of the patch `0007-x` has the name `0007-x (6.12)`. Of the forms of a patch the
    first one that applies is used.
    """
    folder = Path(__file__).parent / "patches"
    first = [(file.stem, [0], file) for file in folder.glob("*.patch")]
    forms = [(file.stem, _version(file.parent.name), file) for file in folder.glob("[0-9]*/*.patch")]
    return [
        Patch(
            stem if file.parent == folder else f"{stem} ({file.parent.name})",
            file.read_text(encoding="utf-8"),
        )
        for stem, _, file in sorted(first + forms)
    ]


def _version(text: str) -> list[int]:
    return [int(part) for part in text.split(".")]


def until(version: str, ours: Iterable[Patch]) -> list[Patch]:
    """The patches without forms for later series than this version."""
    return [
        patch
        for patch in ours
        if "(" not in patch.name or _version(patch.name.partition("(")[2].rstrip(")")) <= _version(version)
    ]


def patch_of(name: str) -> str:
    """The name of the patch of which this is a form."""
    return name.partition(" ")[0]


def relevant(ours: Iterable[Patch], applied: Iterable[str]) -> list[Patch]:
    """The patches on which a kernel depends: forms for later series are not read where the first one applies."""
    there = set(applied)
    return [
        patch for patch in ours if patch.name == patch_of(patch.name) or patch_of(patch.name) not in there
    ]


def omitted(applied: Iterable[str], contained: Iterable[str]) -> dict[str, str]:
    """The patches of this package that a kernel needs and does not have, with what is lost."""
    there = {patch_of(name) for name in (*applied, *contained)}
    names = dict.fromkeys(patch_of(patch.name) for patch in patches())
    return {name: LOST[name] for name in names if name in LOST and name not in there}


def refresh(source: Source, folder: Path, users: list[Change], ours: list[Patch], say: Say) -> Copy:
    """Updates `folder/source` to the source with the patches and modules of the user and the patches of this package.

    Raises `UserError` if a patch of the user or a required patch of this package does not apply. The next update
    continues from whatever state the copy has then.
    """
    tree, pristine, manifest = folder / "source", folder / "pristine", folder / "manifest.json"
    before = _read(manifest)
    now = source.files(say)
    changed = [name for name, stat in now.items() if before.get(name) != stat]
    made = _Created(folder / "created.json")
    if changed:
        # If this process dies now, the next one copies all files again.
        _write(manifest, {name: stat for name, stat in before.items() if name in now and name not in changed})
    for name in before.keys() - now.keys():
        (tree / name).unlink(missing_ok=True)
        (pristine / name).unlink(missing_ok=True)
    now |= source.copy(changed, tree, say)
    made.forget(tree if WHOLE in changed else None, now)
    touched = sorted({name for patch in (*users, *ours) for name in patch.touches})
    _keep_pristine(tree, pristine, touched, fresh=set(changed), made=made.names)
    # The copy is complete; whether the patches are applied is decided by comparing contents.
    _write(manifest, now)
    with scratch_folder(folder) as scratch:
        applied, contained = _patch(scratch, tree, pristine, touched, users, ours)
        _take(scratch, tree, touched, {name for name in touched if not (pristine / name).exists()}, made)
    state = json.dumps([now, [[patch.name, patch.text] for patch in (*users, *ours)]], sort_keys=True)
    return Copy(tree, hashlib.sha256(state.encode(errors="surrogateescape")).hexdigest(), applied, contained)


class _Created:
    """The files of the copy that patches created, on disk: the source does not have them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self.names = set(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            self.names = set()

    def forget(self, unpacked: Path | None, now: dict[str, Stat]) -> None:
        """Removes the names that the source has by now; all if the source was `unpacked` again."""
        self.put(set() if unpacked else self.names - now.keys())

    def put(self, names: set[str]) -> None:
        """Stores the names."""
        self.names = names
        draft = self._file.with_suffix(".new")
        draft.write_text(json.dumps(sorted(names)), encoding="utf-8")
        draft.replace(self._file)


def _keep_pristine(tree: Path, pristine: Path, touched: list[str], fresh: set[str], made: set[str]) -> None:
    for name in touched:
        kept = pristine / name
        if (
            (name in fresh or WHOLE in fresh or not kept.exists())
            and name not in made
            and (tree / name).exists()
        ):
            kept.parent.mkdir(parents=True, exist_ok=True)
            draft = kept.with_name(f"{kept.name}.new-original")
            shutil.copy2(tree / name, draft)
            draft.replace(kept)
        elif WHOLE in fresh:
            kept.unlink(missing_ok=True)
    for kept in [file for file in pristine.rglob("*") if file.is_file()]:
        name = str(kept.relative_to(pristine))
        if name not in touched:
            if WHOLE not in fresh:
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(kept, tree / name)
            kept.unlink()


def _patch(  # noqa: PLR0913, PLR0917 - where the files are, and what is applied to them
    scratch: Path, tree: Path, pristine: Path, touched: list[str], users: list[Change], ours: list[Patch]
) -> tuple[list[str], list[str]]:
    """Applies the patches to copies of the originals in `scratch`.

    Returns the names of the patches of this package that were applied, and of those that the source does not need.
    """
    for name in touched:
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        if (pristine / name).exists():
            shutil.copy(pristine / name, scratch / name)
    for change in users:
        if isinstance(change, Module):
            change.apply(scratch)
        else:
            series.apply(change, scratch)
    applied: list[str] = []
    contained: list[str] = []
    for name, group in groupby(ours, key=lambda patch: patch_of(patch.name)):
        form, error = _applied(list(group), scratch)
        if form is not None:
            applied.append(form)
        elif _contains(name, scratch, tree):
            contained.append(name)
        elif name not in LOST:
            raise UserError(
                f"this kernel cannot {_REQUIRED.get(name, 'run in virtual time')}: {error}"
            ) from None
    return applied, contained


def _contains(name: str, scratch: Path, tree: Path) -> bool:
    """Whether the source does itself what a patch of this package does, or has not the fault that it corrects."""
    if name not in {*CONTAINED, *FAULTS}:
        return False
    file, text = (CONTAINED | FAULTS)[name]
    at = scratch / file if (scratch / file).exists() else tree / file
    there = at.is_file() and text in at.read_text(encoding="utf-8", errors="replace")
    return there != (name in FAULTS)


def _take(scratch: Path, tree: Path, touched: list[str], absent: set[str], made: _Created) -> None:
    """Replaces the files of the tree that differ from the patched ones; `absent` are not in the source."""
    made.put(made.names | absent)
    for name in touched:
        new, old = scratch / name, tree / name
        if not new.exists():
            old.unlink(missing_ok=True)
        elif not old.exists() or new.read_bytes() != old.read_bytes():
            old.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(new, old)
    for name in made.names - absent:
        (tree / name).unlink(missing_ok=True)
    made.put(absent)


def _applied(forms: list[Patch], scratch: Path) -> tuple[str | None, UserError | None]:
    """The name of the first form of a patch of this package that applies, or the error of the last one."""
    problem = None
    for patch in forms:
        with scratch_folder() as trial:
            for name in patch.touches:
                if (scratch / name).exists():
                    (trial / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(scratch / name, trial / name)
            try:
                series.apply(patch, trial, fuzz=_FUZZ)
            except UserError as error:
                problem = error
                continue
            for name in patch.touches:
                if (trial / name).exists():
                    shutil.copyfile(trial / name, scratch / name)
        return patch.name, None
    return None, problem


def _read(manifest: Path) -> dict[str, Stat]:
    try:
        read = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: (size, changed) for name, (size, changed) in read.items()}


def _write(manifest: Path, files: dict[str, Stat]) -> None:
    draft = manifest.with_suffix(".new")
    draft.write_text(json.dumps(files), encoding="utf-8")
    draft.replace(manifest)
