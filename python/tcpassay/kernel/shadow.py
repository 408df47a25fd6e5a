"""The patched copy of a kernel source, updated so that a build recompiles only changed files.

The original of each patched file is kept beside the copy. The patched file is written only if its content changes. The
user's patches are applied first, to the source that they were made for; the patches of this package follow.
"""

import hashlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tcpassay.errors import UserError
from tcpassay.kernel import series
from tcpassay.kernel.series import Patch
from tcpassay.kernel.source import Say, Source, Stat

WHOLE: Final = ""
"""The name of the single pseudo file of a source that changes only as a whole."""

# Without the first patch a kernel lacks the older DCTCP receivers, without the last one RED that is served by a link;
# the other patches only improve speed.
OPTIONAL: Final = {
    "0004-tcp-dctcp-selectable-receiver",
    "0005-um-faults-of-sixteen-pages",
    "0006-um-no-system-calls-at-a-switch",
    "0007-um-memory-is-mapped-at-once",
    "0008-net-sched-tbf-as-a-link",
}


_LOST: Final = {"0001-gcov-counters-on-the-host": "count what it executes"}
"""What a kernel cannot do without a required patch; without the others it cannot run in virtual time."""

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


def patches() -> list[Patch]:
    """The patches of this package, in order."""
    folder = Path(__file__).parent / "patches"
    return [Patch(file.stem, file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.patch"))]


def refresh(source: Source, folder: Path, users: list[Patch], ours: list[Patch], say: Say) -> Copy:
    """Updates `folder/source` to the source with the patches of the user and of this package.

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
    source.copy(changed, tree, say)
    made.forget(tree if WHOLE in changed else None, now)
    touched = sorted({name for patch in (*users, *ours) for name in patch.touches})
    _keep_pristine(tree, pristine, touched, fresh=set(changed), made=made.names)
    # The copy is complete; whether the patches are applied is decided by comparing contents.
    _write(manifest, now)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        applied = _patch(Path(scratch), pristine, touched, users, ours)
        _take(
            Path(scratch), tree, touched, {name for name in touched if not (pristine / name).exists()}, made
        )
    state = json.dumps([now, [[patch.name, patch.text] for patch in (*users, *ours)]], sort_keys=True)
    return Copy(tree, hashlib.sha256(state.encode(errors="surrogateescape")).hexdigest(), applied)


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


def _patch(
    scratch: Path, pristine: Path, touched: list[str], users: list[Patch], ours: list[Patch]
) -> list[str]:
    """Applies the patches to copies of the originals in `scratch`; returns the applied ones of this package."""
    for name in touched:
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        if (pristine / name).exists():
            shutil.copy(pristine / name, scratch / name)
    for patch in users:
        series.apply(patch, scratch)
    return [patch.name for patch in ours if _applied(patch, scratch)]


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


def _applied(patch: Patch, scratch: Path) -> bool:
    """Applies a patch of this package. Raises `UserError` if it is required and does not apply."""
    with tempfile.TemporaryDirectory(dir=scratch.parent) as folder:
        trial = Path(folder)
        for name in patch.touches:
            if (scratch / name).exists():
                (trial / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(scratch / name, trial / name)
        try:
            series.apply(patch, trial, fuzz=_FUZZ)
        except UserError as error:
            if patch.name in OPTIONAL:
                return False
            lost = _LOST.get(patch.name, "run in virtual time")
            raise UserError(f"this kernel cannot {lost}: {error}") from None
        for name in patch.touches:
            if (trial / name).exists():
                shutil.copyfile(trial / name, scratch / name)
    return True


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
